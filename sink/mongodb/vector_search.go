package mongodb

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"keyfold/engine/profile"
)

// The server compares so many candidates for each product that is asked for, which its manual
// advises, and no more than it takes.
const (
	candidatesPerProduct = 20
	leastCandidates      = 300
	mostCandidates       = 10_000
)

// NearestProducts returns products near to a vector, the nearest first, by the server's index:
// $vectorSearch, which MongoDB's servers with a search process have. The index is of the field
// embedding, with the filters category and product_id.
func (s *Store) NearestProducts(ctx context.Context, q profile.VectorQuery) (products []profile.Product, err error) {
	if err := ended(ctx, "search products"); err != nil {
		return nil, err
	}
	limit := min(q.Limit, mostCandidates)
	stage := bson.D{
		{Key: "index", Value: q.Index},
		{Key: "path", Value: fieldEmbedding},
		{Key: "queryVector", Value: q.Vector},
		{Key: "numCandidates", Value: min(mostCandidates, max(leastCandidates, candidatesPerProduct*limit))},
		{Key: "limit", Value: limit},
	}
	filter := bson.D{}
	if q.Category != "" {
		filter = append(filter, bson.E{Key: fieldCategory, Value: bson.D{{Key: "$eq", Value: q.Category}}})
	}
	if len(q.Without) > 0 {
		filter = append(filter, bson.E{Key: fieldProduct, Value: bson.D{{Key: "$nin", Value: q.Without}}})
	}
	if len(filter) > 0 {
		stage = append(stage, bson.E{Key: "filter", Value: filter})
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	// The search process knows no majority.
	local := s.database.Collection(collectionProducts, options.Collection().SetReadConcern(readconcern.Local()))
	cursor, err := local.Aggregate(ctx, bson.A{bson.D{{Key: "$vectorSearch", Value: stage}}})
	if err != nil {
		return nil, mark("search "+collectionProducts, err)
	}
	defer func() { _ = cursor.Close(ctx) }() // the reading is over, whatever the server says to it
	for cursor.Next(ctx) {
		p, err := s.codec.product(cursor.Current)
		if err != nil {
			return nil, err
		}
		products = append(products, p)
	}
	return products, mark("search "+collectionProducts, cursor.Err())
}
