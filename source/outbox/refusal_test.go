package outbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

type nowhere struct{}

func (nowhere) Publish(_ context.Context, rows []Row) []error {
	errs := make([]error, len(rows))
	for i := range errs {
		errs[i] = engine.ErrUnroutable
	}
	return errs
}

// The queue is gone and a small shop has five users: a relay that has published
// nothing of anybody's for a minute says so.
func TestRelayThatPublishesNothingIsNotReady(t *testing.T) {
	db := openAt(t, "sqlite://"+filepath.Join(t.TempDir(), "o.db"))
	s := storeOn(t, db, StoreConfig{})
	for u := 1; u <= 5; u++ {
		b := fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","search_phrase":null,"product_id":1,"occurred_at":"2026-02-10T14:30:00+00:00","metadata":null,"message_id":"m%d","version":"1.0"}`, u, u)
		e, err := profile.ParseEvent(b, time.Now())
		must.OK(t, err)
		_, err = s.Add(t.Context(), []profile.Entry{{Event: e, Body: b}})
		must.OK(t, err)
	}
	r := NewRelay(db, nowhere{}, RelayConfig{HoldMin: 20 * time.Millisecond, HoldMax: 100 * time.Millisecond}, quiet)
	running(t, r)
	must.Hold(t, "the relay says that it publishes nothing", func() bool { return errors.Is(r.Fault(), errRefusesAll) })
	if n := r.Stats.Sent.Load(); n != 0 {
		t.Errorf("%d rows were sent nowhere", n)
	}
}
