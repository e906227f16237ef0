package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/report"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
)

// burstsCmd measures what becomes of bursts: one user gets 40 messages in 10 minutes, and many
// users get some at once.
type burstsCmd struct {
	Messages int    `default:"40" help:"Messages of the one user."`
	Users    int    `default:"5000" help:"Users that get messages at once."`
	Each     int    `default:"8" help:"Messages of each of them."`
	Seed     uint64 `default:"1" help:"Of the messages."`
}

// Run compares the shipped set with what it was before it had limits, channels and topics.
func (c *burstsCmd) Run(ctx context.Context, r *report.Report) error {
	for _, way := range []struct {
		name string
		bare bool
	}{{"without limits", true}, {"shipped", false}} {
		set, err := habitSet(0, false)
		if err != nil {
			return err
		}
		if way.bare {
			p := &set.Policy
			p.Limits, p.Awake, p.Topics, p.Digests = nil, 0, nil, nil
			for i := range p.Types {
				p.Types[i].OthersLater, p.Types[i].CappedToDigest = false, false
			}
		}
		for _, burst := range []struct {
			name        string
			users, each int
			span        engine.Millis
		}{
			{fmt.Sprintf("%d to one user in 10 minutes", c.Messages), 1, c.Messages, 600_000},
			{fmt.Sprintf("%d to each of %d users at once", c.Each, c.Users), c.Users, c.Each, 1000},
		} {
			if err := c.measure(ctx, r, set, way.name+", "+burst.name, burst.users, burst.each, burst.span); err != nil {
				return err
			}
		}
	}
	return nil
}

// burstTypes are those of the messages: half of them urgent, and a third that is of no use
// after two hours.
var burstTypes = []notify.EventType{notify.Message, notify.Alert, notify.Update, notify.Reminder, notify.Promo, notify.Message}

func (c *burstsCmd) measure(ctx context.Context, r *report.Report, set *notify.Set, name string, users, each int, span engine.Millis) error {
	store := &sized{Ledger: memory.New()}
	config := processor.DefaultConfig()
	config.Replay = true
	p, err := processor.New(config, processor.Ports{Ledger: store, Dispatcher: confirming{}, Sets: oneSet{set}})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(c.Seed, uint64(users)))
	begin := habitsBegin + 12*3_600_000
	posted := map[uuid.UUID]engine.Millis{}
	var batches []processor.Batch
	for user := range users {
		b := processor.Batch{User: fmt.Sprint(user)}
		for n := range each {
			at := begin + span*engine.Millis(n)/engine.Millis(each)
			e := habitEvent(random, b.User, burstTypes[random.IntN(len(burstTypes))], at)
			if random.IntN(3) == 0 {
				expire(e, at+2*3_600_000)
			}
			posted[e.ID] = at
			b.Deliveries = append(b.Deliveries, processor.Delivery{Event: e, At: at})
		}
		batches = append(batches, b)
	}
	p.Apply(ctx, batches)
	if err := p.FinishReplay(ctx); err != nil {
		return err
	}
	counts, delays, sent := map[string]float64{}, []float64{}, 0.0
	for d, err := range store.Records(ctx, ledger.Filter{}) {
		if err != nil {
			return err
		}
		switch rec := &d.Record; {
		case rec.Facts.Step > 0:
		case rec.Outcome == notify.Now:
			sent++
			delays = append(delays, float64(rec.DecidedAt-posted[rec.EventID])/60_000)
			if slices.Contains(rec.Reasons, notify.ReasonDeferLimit) {
				counts[notify.ReasonDeferLimit]++
			}
		case rec.Outcome == notify.Never:
			counts[rec.Reasons[0]]++
		}
	}
	slices.Sort(delays)
	share := func(n float64) float64 { return 100 * n / float64(len(posted)) }
	add := r.Of(name)
	add("sent", "%", share(sent))
	add("DEFER_LIMIT", "%", share(counts[notify.ReasonDeferLimit]))
	add("too late: expired before a slot", "%", share(counts[notify.ReasonExpiresFirst]+counts[notify.ReasonExpired]))
	if len(delays) > 0 {
		add("median wait", "min", delays[len(delays)/2])
		add("longest wait", "min", delays[len(delays)-1])
	}
	store.tell(add)
	return nil
}

// expire gives a notification an end.
func expire(e *notify.Notification, at engine.Millis) {
	var members map[string]any
	_ = json.Unmarshal(e.Body, &members) // which habitEvent has made
	members["expires_at"] = at.Time()
	e.ExpiresAt = at
	e.Body, _ = json.Marshal(members)
}

// confirming takes every dispatch.
type confirming struct{}

// Send implements [notify.Dispatcher].
func (confirming) Send(_ context.Context, all []notify.Dispatch) []error {
	return make([]error, len(all))
}
