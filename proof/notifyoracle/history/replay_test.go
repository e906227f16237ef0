package history

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/proof/notifyoracle"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

// TestReplaysOfRandomSetsKeepTheLaws sends random events through the processor and a
// ledger, every second time with cancellations, replacements and reports between: the
// records, dispatches and states that it leaves are a run of the oracle.
func TestReplaysOfRandomSetsKeepTheLaws(t *testing.T) {
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	records, met := 0, map[string]int{}
	for number := range uint64(histories / 20) {
		run, _ := w.replay(t, number*setsEvery, cosines{}, nil)
		records += len(run.Records)
		for i := range run.Records {
			met[run.Records[i].Reasons[0]]++
		}
		for _, v := range slices.Concat(notifyoracle.Check(run), notifyoracle.Replay(run)) {
			t.Errorf("history %d: %v", number*setsEvery, v)
		}
		if t.Failed() {
			return
		}
	}
	if records < histories {
		t.Errorf("%d records", records)
	}
	for _, reason := range beside {
		if histories >= 1000 && met[reason] == 0 {
			t.Errorf("no record is %s", reason)
		}
	}
}

// beside are the reasons that cancellations, replacements, follow-ups and reports of them
// leave in records.
var beside = []string{
	notify.ReasonCancelled, notify.ReasonReplaced, notify.ReasonReplaces, notify.ReasonRead, notify.ReasonDelivered,
	notify.ReasonEscalated, notify.ReasonOtherChannel, notify.ReasonTopicDigest,
}

// replay has 8 users, whose events come in groups of random sizes. changed makes another
// set of the drawn one; nil: it decides itself.
func (w *World) replay(t *testing.T, number uint64, scores notify.Scores, changed func(sets) sets) (*notifyoracle.Run, *memory.Ledger) {
	t.Helper()
	if err := w.drawSets(number); err != nil {
		t.Fatal(err)
	}
	w.rng.seed(number, 3)
	store, out := memory.New(), &outbox{}
	s := pick(w.rng, w.sets)
	if changed != nil {
		s = changed(s)
	}
	config := processor.DefaultConfig()
	config.Replay, config.Pause = true, time.Microsecond
	p, err := processor.New(config, processor.Ports{
		Ledger: store, Dispatcher: out, Sets: inForce{s.theirs}, Scores: scores, Clock: func() engine.Millis { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	run := &notifyoracle.Run{Sets: map[string]*notifyoracle.Set{s.ours.Version: s.ours}, States: map[string]*notify.State{}, End: 1 << 50}
	for i := range 8 {
		user := fmt.Sprint("user ", i)
		w.replayUser(t, p, store, run, user, s)
		run.States[user] = nil
	}
	if err := p.FinishReplay(t.Context()); err != nil {
		t.Fatal(err)
	}
	for user := range run.States {
		standing, err := store.Load(t.Context(), []notify.Ask{{User: user}})
		if err != nil {
			t.Fatal(err)
		}
		run.States[user] = standing[0].State
	}
	decided := map[uuid.UUID]engine.Millis{}
	for d, err := range store.Records(t.Context(), ledger.Filter{Oldest: true}) {
		if err != nil {
			t.Fatal(err)
		}
		run.Records = append(run.Records, d.Record)
		decided[d.Record.EventID] = d.Record.DecidedAt
	}
	for _, sent := range out.got {
		sent.At = decided[sent.Events[0]]
		run.Sent = append(run.Sent, sent)
	}
	return run, store
}

// replayUser decides one user's events on their own clock.
func (w *World) replayUser(t *testing.T, p *processor.Processor, store *memory.Ledger, run *notifyoracle.Run, user string, s sets) {
	t.Helper()
	h := &history{World: w, person: w.newPerson(user), set: s, place: &w.places[w.rng.IntN(len(w.places))], run: run}
	h.start()
	if err := store.SetPreferences(t.Context(), user, h.prefs); err != nil {
		t.Fatal(err)
	}
	settler := processor.SettlerFunc(func(v processor.Verdict) {
		if v.Outcome != processor.Decided && (!w.fresh || v.Outcome != processor.Known) {
			t.Errorf("user %s: %v %v", user, v.Outcome, v.Err)
		}
	})
	others := &outside{history: h, t: t, user: user, store: store, reports: map[uuid.UUID]notify.Reported{}}
	var deliveries []processor.Delivery
	for range 20 {
		h.now = h.nextTime()
		e := h.newEvent(user)
		e.Timestamp = h.now
		others.comes(e.Notification)
		if e.ExpiresAt != 0 {
			e.ExpiresAt = max(e.ExpiresAt, h.now+1)
		}
		deliveries = append(deliveries, processor.Delivery{Event: e.Notification, At: h.now, Settler: settler})
		if d := others.delivery(settler); d != nil {
			deliveries = append(deliveries, *d)
		}
	}
	for len(deliveries) > 0 {
		n := 1 + w.rng.IntN(len(deliveries))
		p.Apply(t.Context(), []processor.Batch{{User: user, Deliveries: deliveries[:n]}})
		deliveries = deliveries[n:]
		others.report()
	}
}

type inForce struct{ *notify.Set }

func (s inForce) Current() *notify.Set { return s.Set }

// cosines follow from the events' ids; a third is not known.
type cosines struct{}

func (cosines) Score(_ context.Context, _ *notify.Policy, events []*notify.Notification) (scores []notify.Score) {
	for _, e := range events {
		scores = append(scores, notify.Score{Known: e.ID[0]%3 != 0, Cosine: float64(e.ID[1])/256 - .3})
	}
	return scores
}

// outbox keeps what it is given.
type outbox struct {
	mu  sync.Mutex
	got []notifyoracle.Sent
}

func (o *outbox) Send(_ context.Context, all []notify.Dispatch) []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range all {
		sent := notifyoracle.Sent{ID: all[i].ID}
		for _, e := range all[i].Events {
			sent.Events = append(sent.Events, e.ID)
		}
		o.got = append(o.got, sent)
	}
	return make([]error, len(all))
}
