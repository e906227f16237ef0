package notifysim

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/proof/schedule"
)

// cancelOf asks the API to end what waits, until the answer arrives.
func (f *front) cancelOf(number int) {
	c := f.plan.cancels[number]
	e := f.plan.events[c.event]
	asked := map[string]any{"event_id": e.ID}
	if c.byKey {
		asked = map[string]any{"dedupe_key": e.DedupeKey}
	}
	if c.named || c.byKey {
		if asked["user_id"] = e.UserID; number%2 == 0 {
			f.mu.Lock()
			asked["user_id"] = f.person(e.UserID)
			f.mu.Unlock()
		}
	}
	body, err := json.Marshal(asked)
	if err != nil {
		panic(err)
	}
	d := f.rng("cancel", uint64(number))
	for {
		time.Sleep(d.Between(time.Microsecond, time.Millisecond))
		r := httptest.NewRequest(http.MethodPost, "/v1/cancellations", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		f.Note("front", "answers a cancellation", int64(number), int64(w.Code))
		if lost := !f.quiet() && d.Chance(f.plan.rates.publish); f.cancelled(&c, e, w) && !lost {
			f.mu.Lock()
			f.cancelling--
			f.mu.Unlock()
			return
		}
		time.Sleep(d.Latency(2*time.Second, 20*time.Second))
	}
}

// cancelled checks an answer: what is answered waits no longer, and is not sent any more.
func (f *front) cancelled(c *cancellation, e *notify.Notification, w *httptest.ResponseRecorder) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch w.Code {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return false
	default:
		f.fault("a cancellation of event %d is answered with %d: %s", c.event, w.Code, w.Body)
		return true
	}
	var answer struct {
		Results []struct {
			Status   string      `json:"status"`
			EventIDs []uuid.UUID `json:"event_ids"`
		} `json:"results"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Results) != 1 {
		f.fault("a cancellation of event %d is answered with %s: %v", c.event, w.Body, err)
		return true
	}
	one := answer.Results[0]
	if _, gone := f.erased[e.UserID]; gone {
		return true
	}
	ended := one.EventIDs
	if !c.byKey && one.Status != "unknown" {
		ended = append(ended, e.ID)
	}
	found, err := f.store.Load(context.Background(), []notify.Ask{{User: e.UserID, Events: ended}})
	if err != nil {
		f.fault("load user %s: %w", e.UserID, err)
		return true
	}
	for i, known := range found[0].Known {
		if known.Outcome != notify.Never && (known.Outcome != notify.Now || one.Status == "ended") {
			f.fault("event %v is %v, and its cancellation was answered %q", ended[i], known.Outcome, one.Status)
		}
	}
	return true
}

// Cancel implements [api.Canceller]: as the process of some life does it.
func (f *front) Cancel(ctx context.Context, all []notify.Cancellation) []processor.Verdict {
	if len(all) == 0 {
		return nil
	}
	d := f.rng("canceller", keyOf(all[0].Event), schedule.InstantOf(time.Now()))
	f.mu.Lock()
	k := f.lives[d.N(len(f.lives))]
	f.mu.Unlock()
	fail := func(err error) []processor.Verdict {
		verdicts := make([]processor.Verdict, len(all))
		for i := range verdicts {
			verdicts[i].Err = err
		}
		return verdicts
	}
	if k == nil {
		return fail(engine.ErrAway)
	}
	p, err := processor.New(f.plan.config.Processor, processor.Ports{Ledger: k.ledger(), Dispatcher: &sender{k}, Sets: k, Clock: k.clock})
	if err != nil {
		return fail(err)
	}
	return p.Cancel(ctx, all)
}
