package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// codesOfChange are how a statement is stopped by a server that shuts down,
// loses its primacy or runs out of time. That it was not applied is the rule,
// but not one to build on.
var codesOfChange = []int{
	50,    // MaxTimeMSExpired
	64,    // WriteConcernFailed
	91,    // ShutdownInProgress
	189,   // PrimarySteppedDown
	262,   // ExceededTimeLimit
	10107, // NotWritablePrimary
	11600, // InterruptedAtShutdown
	11601, // Interrupted
	11602, // InterruptedDueToReplStateChange
	13435, // NotPrimaryNoSecondaryOk
	13436, // NotPrimaryOrSecondary
}

// deadlockMessage is how PostgreSQL tells the victim of a deadlock, below servers that keep
// their documents in it, each with a code of its own: another writer was faster.
const deadlockMessage = "deadlock detected"

// markStatement gives the error of one statement its kind. Any that is not
// listed says that the statement was not applied: a refusal.
func markStatement(p *profile.Profile, failure mongo.WriteError) error {
	if failure.Code == codeDuplicateKey || strings.Contains(failure.Message, deadlockMessage) {
		return engine.ErrConflict
	}
	doing := fmt.Sprintf("write user %d", p.UserID)
	if slices.Contains(codesOfChange, failure.Code) {
		return markWrite(doing, failure)
	}
	err := mark(doing, failure)
	if engine.KindOf(err) == engine.Transient {
		return refusal{err}
	}
	return err
}

// readBack decides the updates of a bulk of which some found another version
// than the due one: all but matched. At this point those that were applied are
// durable. A document is the work of this bulk if it has the bulk's write id.
func (s *Store) readBack(ctx context.Context, writes []write, id bson.ObjectID, matched int64) error {
	for _, w := range writes {
		*w.answer = engine.ErrConflict
	}
	if matched == 0 {
		return nil
	}
	found, err := s.writeMarks(ctx, writes)
	if err != nil {
		return markUnknown(writes, err)
	}
	var overwritten []write
	for _, w := range writes {
		switch t := found[w.profile.UserID]; {
		case t.version == w.profile.Version && t.writeID == id:
			*w.answer = nil
			matched--
		case t.version > w.profile.Version && !t.erased:
			overwritten = append(overwritten, w)
		}
	}
	if matched == 0 {
		return nil
	}
	return s.resolveOverwritten(ctx, overwritten)
}

// resolveOverwritten decides writes that were written over since, or never happened. The
// profile that is there now may be built on either, and its ids tell on which.
// What was erased or deleted since stays a conflict: it is no more.
func (s *Store) resolveOverwritten(ctx context.Context, writes []write) error {
	users := usersOf(writes)
	profiles, err := s.Load(ctx, users)
	unreadable, ok := errors.AsType[*engine.UnreadableError](err)
	if err != nil && !ok {
		return markUnknown(writes, err)
	}
	for i, w := range writes {
		if *w.answer = builtOn(profiles[i], w.profile); ok && unreadable.Users[users[i]] != nil {
			*w.answer = fmt.Errorf("%w: %v", engine.ErrUnknown, unreadable.Users[users[i]]) //nolint:errorlint // its kind is for the Load that follows
		}
	}
	return nil
}

// markUnknown answers writes whose documents could not be read back.
func markUnknown(writes []write, err error) error {
	err = fmt.Errorf("%w: some versions had moved, and reading which failed: %w", engine.ErrUnknown, err)
	for _, w := range writes {
		*w.answer = err
	}
	return err
}

func usersOf(writes []write) []int32 {
	users := make([]int32, len(writes))
	for i, w := range writes {
		users[i] = w.profile.UserID
	}
	return users
}

// writeMark is what tells whose write a document is.
type writeMark struct {
	user, version int32
	writeID       bson.ObjectID
	erased        bool
}

var markFields = bson.D{
	{Key: fieldID, Value: 0},
	{Key: fieldUser, Value: 1},
	{Key: fieldVersion, Value: 1},
	{Key: fieldWriteID, Value: 1},
	{Key: fieldErased, Value: 1},
}

// writeMarks reads the marks of all users of writes that have a document.
func (s *Store) writeMarks(ctx context.Context, writes []write) (map[int32]writeMark, error) {
	users := usersOf(writes)
	found := make(map[int32]writeMark, len(writes))
	how := oneReply(len(users)).SetProjection(markFields)
	err := s.find(ctx, s.users, among(fieldUser, users), how, func(doc bson.Raw) error {
		t, err := readWriteMark(doc)
		found[t.user] = t
		return err
	})
	return found, err
}

func readWriteMark(doc []byte) (t writeMark, err error) {
	err = eachField(doc, func(key []byte, v bsoncore.Value) error {
		switch string(key) {
		case fieldUser:
			return readInt32(v, &t.user)
		case fieldVersion:
			return readInt32(v, &t.version)
		case fieldErased:
			t.erased = true
		case fieldWriteID:
			// Any other type is another program's, and no write of ours.
			id, _ := v.ObjectIDOK()
			t.writeID = id
		}
		return nil
	})
	return t, err
}

// builtOn answers the write of p, given a profile of a newer version: p was
// written if its group of ids is there.
func builtOn(newer, p *profile.Profile) error {
	if newer == nil || newer.Erased() {
		return engine.ErrConflict
	}
	if len(p.Applied.Groups) == 0 {
		return fmt.Errorf("%w: user %d was written again, and this write has no ids to find", engine.ErrUnknown, p.UserID)
	}
	group := p.Applied.Groups[len(p.Applied.Groups)-1]
	switch {
	case newer.Applied.HasWrite(group.Write):
		return nil
	case newer.Applied.Floor >= group.At:
		return fmt.Errorf("%w: user %d was written again until this write's ids were dropped", engine.ErrUnknown, p.UserID)
	default:
		return engine.ErrConflict
	}
}
