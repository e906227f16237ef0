package mongodb

import (
	"context"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
)

// probeUser is the user_id of the document that probes write. Events have ids
// from 1, so it is no user's. The document is a tombstone: the validator takes
// it, and every program that reads the collection has to know tombstones anyway.
const probeUser int32 = math.MinInt32

// Probe does one real write, acknowledged as those of profiles are and into the
// same collection. A ping, or a write elsewhere, would be answered by a store that
// takes no profile: without a majority, on a full disk, with its writes blocked.
//
// The write makes no document in a collection without the unique index: there Probe
// returns the configuration fault of [Store.Check].
func (s *Store) Probe(ctx context.Context) error {
	if s.guard.unmarkable.Load() {
		return s.writeProbe(ctx)
	}
	result, err := s.updateProbe(ctx, false)
	if err != nil || result.MatchedCount > 0 {
		return mark("probe", err)
	}
	if err := s.checkIndex(ctx); err != nil {
		return err
	}
	return s.writeProbe(ctx)
}

// writeProbe writes the probes' document also where there is none.
func (s *Store) writeProbe(ctx context.Context) error {
	_, err := s.updateProbe(ctx, true)
	if err = mark("probe", err); engine.KindOf(err) == engine.Permanent {
		// Another program's validator does not know tombstones. Its verdict is
		// that of a store that takes writes.
		s.guard.unmarkable.Store(true)
		return nil
	}
	return err
}

func (s *Store) updateProbe(ctx context.Context, upsert bool) (*mongo.UpdateResult, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.users.UpdateOne(ctx,
		bson.D{{Key: fieldUser, Value: probeUser}},
		bson.D{
			{Key: "$set", Value: bson.D{{Key: fieldErased, Value: time.Now()}}},
			// Without it, two probes in one millisecond are one write.
			{Key: "$inc", Value: bson.D{{Key: fieldVersion, Value: int32(1)}}},
		},
		options.UpdateOne().SetUpsert(upsert))
}
