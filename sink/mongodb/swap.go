package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// swapChunk is how many profiles one round of bulks writes: with 1536 components
// about 6 MB, so that a store under load answers well inside the timeout.
const swapChunk = 256

// maxDocumentBytes is the size no document may exceed.
const maxDocumentBytes = 16 << 20

// Swap implements [profile.Profiles]. When a bulk has no answer, the bulks after
// it are not begun: their profiles have a transient error that is not
// [engine.ErrUnknown].
func (s *Store) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	errs := make([]error, len(profiles))
	writes := make([]write, 0, len(profiles))
	for i, p := range profiles {
		if errs[i] = s.codec.acceptable(p); errs[i] == nil {
			writes = append(writes, write{profile: p, answer: &errs[i]})
		}
	}
	// Workers that lock rows in the same order do not deadlock.
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(a.profile.UserID, b.profile.UserID) })
	failed := ended(ctx, "write profiles")
	for chunk := range slices.Chunk(writes, swapChunk) {
		if failed == nil {
			failed = s.swapChunk(ctx, chunk)
			continue
		}
		notBegun(chunk, failed)
	}
	s.judge(ctx, errs)
	return errs
}

// write is one profile on its way into the store.
type write struct {
	profile *profile.Profile
	answer  *error // in the caller's slice
}

func notBegun(writes []write, cause error) {
	if errors.Is(cause, engine.ErrUnknown) {
		// That is the outcome of another bulk; what became of this one is known.
		cause = fmt.Errorf("MongoDB: not written, as the store failed just before: %v", cause) //nolint:errorlint // not wrapped on purpose
	}
	for _, w := range writes {
		*w.answer = cause
	}
}

// swapChunk writes profiles, those that were refused twice. It returns an error
// when the store gave no answer.
func (s *Store) swapChunk(ctx context.Context, writes []write) error {
	session, err := s.client.StartSession()
	if err != nil {
		err = mark("start a session", err)
		notBegun(writes, err)
		return err
	}
	// The session makes a read that follows the bulk see at least the bulk,
	// whichever server is the primary by then.
	ctx, cancel := s.bounded(mongo.NewSessionContext(ctx, session))
	defer session.EndSession(context.WithoutCancel(ctx))
	defer cancel()

	if err := s.checkSetUp(ctx); err != nil {
		notBegun(writes, err)
		return err
	}
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	if err := s.send(ctx, writes, buffer); err != nil {
		return err
	}
	return s.send(ctx, refused(writes), buffer)
}

// send writes the new users in one bulk and the known ones in another. It returns
// an error when the store gave no answer.
func (s *Store) send(ctx context.Context, writes []write, buffer *[]byte) error {
	var inserts, updates []write
	for _, w := range writes {
		if w.profile.Version == 1 {
			inserts = append(inserts, w)
		} else {
			updates = append(updates, w)
		}
	}
	if err := s.insert(ctx, inserts, buffer); err != nil {
		notBegun(updates, err)
		return err
	}
	return s.update(ctx, updates, buffer)
}

// insert writes profiles of users that must not be there.
func (s *Store) insert(ctx context.Context, writes []write, buffer *[]byte) error {
	if len(writes) == 0 {
		return nil
	}
	models := make([]mongo.WriteModel, len(writes))
	documents, id := s.room(buffer, writes), bson.NewObjectID()
	for i, w := range writes {
		start := len(documents)
		documents = s.codec.appendInsert(documents, w.profile, id)
		models[i] = &mongo.InsertOneModel{Document: bson.Raw(documents[start:])}
	}
	doubts := s.guard.doubts.Load()
	_, undecided, err := s.bulk(ctx, models, writes)
	if err == nil && s.guard.doubts.Load() != doubts {
		err = s.takeBack(ctx, undecided, id)
	}
	for _, w := range undecided {
		*w.answer = err // nil: an insert without an error is there
	}
	return err
}

// update writes profiles of users that must be there, with the version before.
func (s *Store) update(ctx context.Context, writes []write, buffer *[]byte) error {
	if len(writes) == 0 {
		return nil
	}
	models := make([]mongo.WriteModel, len(writes))
	documents, id := s.room(buffer, writes), bson.NewObjectID()
	for i, w := range writes {
		start := len(documents)
		documents = appendDue(documents, w.profile)
		middle := len(documents)
		documents = s.codec.appendUpdate(documents, w.profile, id)
		models[i] = &mongo.UpdateOneModel{Filter: bson.Raw(documents[start:middle]), Update: bson.Raw(documents[middle:])}
	}
	result, undecided, err := s.bulk(ctx, models, writes)
	if err == nil && result.MatchedCount != int64(len(undecided)) {
		return s.readBack(ctx, undecided, id, result.MatchedCount)
	}
	for _, w := range undecided {
		*w.answer = err
	}
	return err
}

// bulk sends models, of which each writes the profile of the same index, and
// answers those that the server refused. It returns the others. An error is
// the answer to all of these.
func (s *Store) bulk(ctx context.Context, models []mongo.WriteModel, writes []write) (*mongo.BulkWriteResult, []write, error) {
	result, err := s.users.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	exception, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok {
		return result, writes, markWrite("write profiles", err)
	}
	refused := make(map[int]bool, len(exception.WriteErrors))
	for _, failure := range exception.WriteErrors {
		refused[failure.Index] = true
		*writes[failure.Index].answer = markStatement(writes[failure.Index].profile, failure.WriteError)
	}
	undecided := make([]write, 0, len(writes)-len(refused))
	for i, w := range writes {
		if !refused[i] {
			undecided = append(undecided, w)
		}
	}
	if exception.WriteConcernError != nil {
		return result, undecided, fmt.Errorf("%w: MongoDB: no majority has the write: %w", engine.ErrUnknown, exception.WriteConcernError)
	}
	return result, undecided, nil
}

// room returns an empty slice that holds the documents of writes. It is the
// buffer's, which serves one bulk after another: the driver copies what it is
// given before it returns, and errors keep no document.
func (s *Store) room(buffer *[]byte, writes []write) []byte {
	size := 0
	for _, w := range writes {
		size += s.codec.size(w.profile)
	}
	*buffer = slices.Grow((*buffer)[:0], size)
	return *buffer
}

// acceptable returns a permanent error for what no later attempt can write.
func (c *codec) acceptable(p *profile.Profile) error {
	if err := p.Acceptable(c.dimensions); err != nil {
		return err
	}
	if size := c.size(p); size > maxDocumentBytes {
		return engine.PermanentError(reasonRejected, fmt.Errorf(
			"profile of user %d takes %d bytes, a document holds %d", p.UserID, size, maxDocumentBytes))
	}
	return nil
}
