package sqlite

import (
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sqlfile"
)

// A user who is erased between the reading of keys and that of decisions has no
// event that could be dispatched.
//
// Promise(notify/changed-amid)
func TestUndispatchedDuringAnErasure(t *testing.T) {
	l := openNew(t)
	const at = engine.Millis(1_774_872_000_000)
	event, err := notify.Parse([]byte(`{"user_id":"17","event_type":"SECURITY","title":"Your code is 1","source":"test","channel":["push"],"timestamp":"2026-03-30T12:00:00Z"}`), at)
	must.OK(t, err)
	record := notify.Record{
		DecisionID: uuid.New(), EventID: event.ID, UserID: "17", Seq: 1, Type: event.Type, Source: event.Source, Outcome: notify.Now,
		Reasons: []string{notify.ReasonScoreHigh}, DecidedAt: at, Channels: event.Channels,
	}
	change := notify.Change{User: "17", State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{{Record: record, Event: event}}}
	must.OK(t, l.Commit(ctx, []notify.Change{change}, nil)[0])
	keys, err := sqlfile.Collect(ctx, l.Reader.Reader, scanKey, undispatchedKeys, int64(at)+1, 9)
	must.OK(t, err)
	if all, err := l.Dispatches(ctx, keys); err != nil || len(all) != 1 {
		t.Fatalf("before the erasure: %+v, %v", all, err)
	}
	must.OK(t, l.Forget(ctx, "17", at+1))
	if all, err := l.Dispatches(ctx, keys); err != nil || len(all) != 0 {
		t.Errorf("found %+v, %v, want no dispatch", all, err)
	}
}
