package mongodb

import (
	"context"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Probe does one real write, acknowledged as those of profiles are. A ping would
// be answered by a store that cannot write: without a majority, or on a full
// disk. Each host has one document, so probing leaves nothing behind that grows.
func (s *Store) Probe(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	_, err = s.probes.UpdateOne(ctx,
		bson.D{{Key: fieldID, Value: host}},
		bson.D{
			{Key: "$set", Value: bson.D{{Key: "at", Value: time.Now()}}},
			// Without it, two probes in one millisecond are one write.
			{Key: "$inc", Value: bson.D{{Key: "probes", Value: int64(1)}}},
		},
		options.UpdateOne().SetUpsert(true))
	return mark("probe", err)
}
