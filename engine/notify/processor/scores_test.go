package processor_test

import (
	"context"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/testserver/must"
)

// asked counts how often the taste of each event is asked for.
type asked map[string]int

func (a asked) Score(_ context.Context, policy *notify.Policy, events []*notify.Notification) []notify.Score {
	scores := make([]notify.Score, len(events))
	for i, e := range events {
		a[e.Title]++
		scores[i] = notify.Score{Skip: notify.SkipText}
		if policy.MayEmbed(e) {
			scores[i] = notify.Score{Known: true, Cosine: .4}
		}
	}
	return scores
}

// A flush asks for the taste of an event once, however often it decides, and not for
// events that are decided already.
func TestTasteIsAskedForOnce(t *testing.T) {
	f, scores := newFixture(t, false), asked{}
	set := *shippedSet(t)
	set.Policy.Score.Taste = true
	config := processor.DefaultConfig()
	config.Pause, config.MaxPause = time.Microsecond, time.Millisecond
	p, err := processor.New(config, processor.Ports{
		Ledger: f.faults, Dispatcher: f.out, Sets: sets{&set}, Scores: scores, Clock: func() engine.Millis { return f.now },
	})
	must.OK(t, err)
	f.Processor = p
	conflicts := 5
	f.faults.commits = func(notify.Change) error {
		if conflicts--; conflicts >= 0 {
			return engine.ErrConflict
		}
		return nil
	}
	update, code := post(t, "1", "UPDATE", "Order 1"), post(t, "2", "SECURITY", "Code 1234")
	for range 2 { // the second time both are known
		f.decide(t.Context(), processor.Delivery{Event: update}, processor.Delivery{Event: code})
	}
	if conflicts >= 0 || scores["Order 1"] != 1 || scores["Code 1234"] != 1 {
		t.Errorf("asked %v", scores)
	}
	records := f.records(t)
	if r := records["1"][0]; !r.Scored || !r.Facts.TasteUsed || r.Facts.Parts.Taste == 0 || r.Facts.Taste.Cosine != .4 {
		t.Errorf("%+v", r.Facts)
	}
	if r := records["2"][0]; r.Scored || r.Facts.TasteUsed || r.Facts.Taste.Skip != notify.SkipText {
		t.Errorf("%+v", r.Facts)
	}
}
