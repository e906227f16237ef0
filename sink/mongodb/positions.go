package mongodb

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// positionsCollection has a document per stream. It needs no index but that of its ids.
const positionsCollection = "keyfold_streams"

// storedPosition is a document of it. Offsets are stored as the signed numbers that BSON has;
// no stream gets to 2^63.
type storedPosition struct {
	Stream  string        `bson:"_id"`
	Offset  int64         `bson:"position"`
	Chunk   storedChunk   `bson:"chunk"`
	At      bson.DateTime `bson:"at"`
	Rewinds int64         `bson:"rewinds"`
	Epoch   *storedEpoch  `bson:"epoch,omitempty"`
}

// storedEpoch is there from the first epoch that an operator has begun.
type storedEpoch struct {
	Number int32 `bson:"number"`
	From   int64 `bson:"from"`
}

type storedChunk struct {
	First     int64         `bson:"first"`
	Timestamp bson.DateTime `bson:"at"`
	CRC       int64         `bson:"crc"`
}

var _ profile.Positions = (*Store)(nil)

func (s *Store) positions() *mongo.Collection {
	return s.users.Database().Collection(positionsCollection)
}

// LoadPosition implements [profile.Positions].
func (s *Store) LoadPosition(ctx context.Context, stream string) (profile.Position, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var p storedPosition
	err := s.positions().FindOne(ctx, bson.D{{Key: fieldID, Value: stream}}).Decode(&p)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return profile.Position{}, nil
	}
	if err != nil {
		return profile.Position{}, mark("read the position of "+stream, err)
	}
	at := profile.Position{Offset: uint64(p.Offset), Rewinds: p.Rewinds, Chunk: profile.Fingerprint{
		First: uint64(p.Chunk.First), Timestamp: engine.Millis(p.Chunk.Timestamp), CRC: uint32(p.Chunk.CRC),
	}}
	if p.Epoch != nil {
		at.Epoch = profile.Epoch{Number: uint16(p.Epoch.Number), From: uint64(p.Epoch.From)}
	}
	return at, nil
}

// SavePosition implements [profile.Positions].
func (s *Store) SavePosition(ctx context.Context, stream string, p profile.Position) error {
	return s.storePosition(ctx, "store", stream, p.Rewinds, p)
}

// Rewind implements [profile.Positions].
func (s *Store) Rewind(ctx context.Context, stream string, seen, to profile.Position) error {
	to.Rewinds = seen.Rewinds + 1
	return s.storePosition(ctx, "set back", stream, seen.Rewinds, to)
}

const fieldRewinds = "rewinds"

// storePosition stores a position in place of one that was set back so many times, or of none.
func (s *Store) storePosition(ctx context.Context, doing, stream string, rewinds int64, p profile.Position) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	// Where there is a document of other rewinds, the insert meets its id.
	_, err := s.positions().ReplaceOne(ctx, bson.D{{Key: fieldID, Value: stream}, {Key: fieldRewinds, Value: rewinds}}, positionDocument(stream, p), options.Replace().SetUpsert(true))
	if hasCode(err, codeDuplicateKey) {
		return fmt.Errorf("%w: the position of %s was set back", engine.ErrConflict, stream)
	}
	if err != nil {
		return mark(doing+" the position of "+stream, err)
	}
	return nil
}

func positionDocument(stream string, p profile.Position) storedPosition {
	d := storedPosition{
		Stream: stream, Offset: int64(p.Offset), At: bson.DateTime(engine.Now()), Rewinds: p.Rewinds,
		Chunk: storedChunk{First: int64(p.Chunk.First), Timestamp: bson.DateTime(p.Chunk.Timestamp), CRC: int64(p.Chunk.CRC)},
	}
	if p.Epoch != (profile.Epoch{}) {
		d.Epoch = &storedEpoch{Number: int32(p.Epoch.Number), From: int64(p.Epoch.From)}
	}
	return d
}
