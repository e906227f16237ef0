package ledgertest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/similar"
	"keyfold/sink/ledger"
)

var ctx = context.Background()

// start is when the tests' first events come.
const start = engine.Millis(1_780_000_000_000)

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// equal compares what was stored with what is read.
func equal[T any](t failer, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// made counts the ids of this process, from a random number: other processes may
// write to the same file.
var made atomic.Uint64

func init() { made.Store(rand.Uint64() >> 4) }

// id returns an id that begins with an instant, as a UUIDv7 does; each is greater
// than those of the same instant before it.
func id(at engine.Millis) (u uuid.UUID) {
	binary.BigEndian.PutUint64(u[:], uint64(at)<<16|0x7000)
	binary.BigEndian.PutUint64(u[8:], 1<<63|made.Add(1))
	return u
}

// Event returns a new event of a user.
func Event(user string, kind notify.EventType, at engine.Millis) *notify.Notification {
	return event(id(at), user, kind, at)
}

func event(id uuid.UUID, user string, kind notify.EventType, at engine.Millis) *notify.Notification {
	body, _ := json.Marshal(map[string]any{ // of texts: it cannot fail
		"event_id": id, "user_id": user, "event_type": kind, "title": "Order 1001 <shipped>", "message": "Grüße \U0001F514",
		"source": "shop", "channel": []string{"push", "email"}, "dedupe_key": "order 1001", "priority_hint": "HIGH",
		"timestamp": at.Time().Format(time.RFC3339Nano), "expires_at": (at + 3_600_000).Time().Format(time.RFC3339Nano),
		"metadata": map[string]any{"order": map[string]any{"id": 1001.5, "paid": true}, "timezone": nil},
	})
	e, err := notify.Parse(body, at)
	if err != nil {
		panic(err) // of this function
	}
	return e
}

// Decide returns a decision of an event: outcome at an instant, as the turn that a
// user's version seq is. A LATER waits for a minute.
func Decide(e *notify.Notification, seq int64, turn int, outcome notify.Outcome, at engine.Millis) notify.Decided {
	r := notify.Record{
		DecisionID: id(at), Seq: seq, EventID: e.ID, UserID: e.UserID, Type: e.Type, Source: e.Source,
		Print:   similar.Of(e.Type.String(), e.Title, e.Message, nil, e.DedupeKey),
		Outcome: outcome, Reasons: []string{notify.ReasonScoreHigh}, RuleVersion: "2026-11-22", Turn: turn, DecidedAt: at,
	}
	switch outcome {
	case notify.Now:
		r.Channels = e.Channels
	case notify.Later:
		r.Reasons, r.DeferUntil = []string{notify.ReasonCap5M, notify.ReasonQuietHours}, at+60_000
	case notify.Never:
		r.Reasons = []string{notify.ReasonDuplicate}
	}
	return notify.Decided{Record: r, Event: e, Delivery: notify.Delivery{Status: notify.StatusOf(outcome)}}
}

// Dispatched returns the marks of events whose dispatch was confirmed.
func Dispatched(events ...uuid.UUID) []notify.DispatchMark {
	marks := make([]notify.DispatchMark, len(events))
	for i := range events {
		marks[i].Event = events[i]
	}
	return marks
}

// change returns the change of a user's version that decisions make.
func change(user string, version int64, decided ...notify.Decided) notify.Change {
	c := notify.Change{User: user, Version: version, Decided: decided, State: &notify.State{}}
	for i := range decided {
		c.State.DecidedAt = decided[i].Record.DecidedAt
		c.State.Sends = append(c.State.Sends, decided[i].Record.DecidedAt)
	}
	return c
}

// commit writes one change and returns its answer.
func commit(l notify.Ledger, c notify.Change, marked ...uuid.UUID) error {
	return l.Commit(ctx, []notify.Change{c}, Dispatched(marked...))[0]
}

// decide commits one decision of a new event.
func decide(t failer, l notify.Ledger, user string, version int64, outcome notify.Outcome, at engine.Millis) notify.Decided {
	t.Helper()
	d := Decide(Event(user, notify.Update, at), version+1, 0, outcome, at)
	must(t, commit(l, change(user, version, d)))
	return d
}

// standing loads one user with the keys of events and the deferrals.
func standing(t failer, l notify.Ledger, user string, events ...uuid.UUID) notify.Standing {
	t.Helper()
	all, err := l.Load(ctx, []notify.Ask{{User: user, Events: events, Deferrals: true}})
	must(t, err)
	if len(all) != 1 || len(all[0].Known) != len(events) {
		t.Fatalf("one user and %d events were asked for, the answer is %+v", len(events), all)
	}
	return all[0]
}

// records reads all records of a filter.
func records(t failer, l Ledger, f ledger.Filter) (all []notify.Decided) {
	t.Helper()
	for d, err := range l.Records(ctx, f) {
		must(t, err)
		all = append(all, d)
	}
	return all
}

// claim claims all that is due, for a minute.
func claim(t failer, l notify.Ledger, now engine.Millis) []notify.Due {
	t.Helper()
	due, err := l.Claim(ctx, now, now+60_000, 1000)
	must(t, err)
	return due
}

// dueIDs returns the events of deferrals.
func dueIDs(due []notify.Due) []uuid.UUID {
	ids := make([]uuid.UUID, len(due))
	for i := range due {
		ids[i] = due[i].Event.ID
	}
	return ids
}

// idsOf returns the events of decisions.
func idsOf(decided ...notify.Decided) []uuid.UUID {
	ids := make([]uuid.UUID, len(decided))
	for i := range decided {
		ids[i] = decided[i].Record.EventID
	}
	return ids
}

func nextDue(t failer, l notify.Ledger) engine.Millis {
	t.Helper()
	next, err := l.NextDue(ctx)
	must(t, err)
	return next
}

func undispatched(t failer, l notify.Ledger, before engine.Millis, n int) []notify.Dispatch {
	t.Helper()
	all, err := l.Undispatched(ctx, before, n)
	must(t, err)
	return all
}

// conflict expects that a change was refused for its version.
func conflict(t failer, err error) {
	t.Helper()
	if !errors.Is(err, engine.ErrConflict) {
		t.Fatalf("the answer is %v, want %v", err, engine.ErrConflict)
	}
}

// anotherUser expects the permanent error of an event_id of another user.
func anotherUser(t failer, err error) {
	t.Helper()
	if !errors.Is(err, notify.ErrAnotherUser) || engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != notify.ReasonAnotherUser {
		t.Fatalf("the answer is %v, want the permanent %v", err, notify.ErrAnotherUser)
	}
}

// known expects that the events of a change are decided, and returns their keys.
func known(t failer, err error) []notify.Known {
	t.Helper()
	var k *notify.KnownError
	if !errors.As(err, &k) {
		t.Fatalf("the answer is %v, want a KnownError", err)
	}
	return k.Known
}

// key returns the key that a decision leaves.
func key(d notify.Decided, dispatched bool) notify.Known {
	k := ledger.Key(&d.Record)
	k.Dispatched = dispatched
	return k
}

// keyOfErased returns the key that a decision of an erased user leaves.
func keyOfErased(d notify.Decided, dispatched bool) notify.Known {
	k := key(d, dispatched)
	k.User = notify.Tombstone(d.Record.UserID)
	return k
}
