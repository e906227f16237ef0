package mongodb

import (
	"context"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// oneReply asks for n documents in one reply. A server whose first batch is
// exactly full does not know that there is no more, and keeps the cursor.
func oneReply(n int) *options.FindOptionsBuilder {
	return options.Find().SetBatchSize(int32(n) + 1)
}

// among returns the filter {field: {$in: ids}}.
func among(field string, ids []int32) bson.Raw {
	start, b := bsoncore.AppendDocumentStart(make([]byte, 0, 64+16*len(ids)))
	operator, b := bsoncore.AppendDocumentElementStart(b, field)
	list, b := bsoncore.AppendArrayElementStart(b, "$in")
	for i, id := range ids {
		b = bsoncore.AppendInt32Element(b, strconv.Itoa(i), id)
	}
	return bson.Raw(endDocument(endDocument(endDocument(b, list), operator), start))
}

// find calls visit for each document that filter finds. The document is valid
// only during the call. An error of visit is returned as it is.
func (s *Store) find(
	ctx context.Context, from *mongo.Collection, filter any,
	how options.Lister[options.FindOptions], visit func(bson.Raw) error,
) error {
	doing := "read " + from.Name()
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	cursor, err := from.Find(ctx, filter, how)
	if err != nil {
		return mark(doing, err)
	}
	defer func() { _ = cursor.Close(ctx) }() // the reading is over, whatever the server says to it
	for cursor.Next(ctx) {
		if err := visit(cursor.Current); err != nil {
			return err
		}
	}
	return mark(doing, cursor.Err())
}
