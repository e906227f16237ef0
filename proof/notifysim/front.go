package notifysim

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/proof/schedule"
	"keyfold/service/notify/api"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/source/httpapi"
)

// front is the API, of package api, before the model's broker and ledger. Clients post
// an event until it is accepted.
type front struct {
	*client    // its way to the ledger
	handler    http.Handler
	posting    int   // posts that are not accepted; guarded by mu
	cancelling int   // cancellations that are not answered; guarded by mu
	merging    int   // merges that are not answered; guarded by mu
	again      int64 // merges that were answered as one that was made before; guarded by mu
	entered    []int // events that the broker has, by index; guarded by mu
}

func newFront(s *simulation) *front {
	k := &life{simulation: s, visits: map[string]int{}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	f := &front{client: &client{k, s.store}}
	f.handler = httpapi.NewHandler(api.New(api.Ports{
		Ledger: frontLedger{f.client, s.store}, Publisher: f, Stop: k.ctx, Sets: k, Canceller: f,
		Ready: func(context.Context) error { return nil },
	}), slog.New(slog.DiscardHandler))
	return f
}

// post posts an event until it is accepted and the answer arrives.
func (f *front) post(event int) {
	d := f.rng("post", uint64(event), schedule.InstantOf(time.Now()))
	for {
		time.Sleep(d.Between(time.Microsecond, time.Millisecond))
		r := httptest.NewRequest(http.MethodPost, api.NotificationsPath, bytes.NewReader(f.plan.events[event].Body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		f.Note("front", "answers", int64(event), int64(w.Code))
		lost := !f.quiet() && d.Chance(f.plan.rates.publish)
		if f.accepted(event, w, lost) {
			return
		}
		time.Sleep(d.Latency(2*time.Second, 20*time.Second))
	}
}

// accepted takes an answer, which may be lost, and says whether the client is content.
func (f *front) accepted(event int, w *httptest.ResponseRecorder, lost bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case w.Code == http.StatusAccepted && !slices.Contains(f.entered, event) && !f.decided(event): // it may be cancelled already
		f.fault("event %d is accepted, and the broker does not have it", event)
	case w.Code != http.StatusAccepted && w.Code != http.StatusServiceUnavailable:
		f.fault("event %d is answered with %d: %s", event, w.Code, w.Body)
	case lost || w.Code != http.StatusAccepted:
		return false
	}
	f.posting--
	return true
}

// decided reports whether an event has a decision.
func (f *front) decided(event int) bool {
	e := f.plan.events[event]
	found, err := f.store.Load(context.Background(), []notify.Ask{{User: e.UserID, Events: []uuid.UUID{e.ID}}})
	return err == nil && found[0].Known[0].Outcome != 0
}

// Publish implements [api.Publisher].
func (f *front) Publish(ctx context.Context, events []*notify.Notification) []error {
	f.pass(failpoint.Posted)
	errs := make([]error, len(events))
	for i, e := range events {
		errs[i] = f.publish(ctx, e)
	}
	if errors.Join(errs...) == nil {
		f.pass(failpoint.Confirmed)
	}
	return errs
}

func (f *front) publish(ctx context.Context, e *notify.Notification) error {
	d := f.rng("publish", keyOf(e.ID), schedule.InstantOf(time.Now()))
	if err := pause(ctx, d.Latency(3*time.Millisecond, 2*time.Second)); err != nil {
		return err
	}
	fate := d.N(1000)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch noisy := !f.quiet(); {
	case noisy && time.Now().Before(f.broker.down), noisy && fate < f.plan.rates.publish/2:
		return errRefused
	case noisy && fate > 999-f.plan.rates.publish/4:
		return engine.ErrUnknown // and it is lost
	case noisy && fate < f.plan.rates.publish:
		f.enter(e)
		return engine.ErrUnknown
	}
	f.enter(e)
	return nil
}

// enter gives an event to the broker. f.mu is held.
func (f *front) enter(e *notify.Notification) {
	event := slices.IndexFunc(f.plan.events, func(o *notify.Notification) bool { return o.ID == e.ID })
	f.entered = append(f.entered, event)
	f.broker.publish(event)
}

// Check implements [api.Publisher].
func (f *front) Check(context.Context) error { return nil }

// frontLedger is the API's ledger.
type frontLedger struct {
	*client
	*store
}

// Load implements [api.Ledger].
func (l frontLedger) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	return l.client.Load(ctx, asks)
}
