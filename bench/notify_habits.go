package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/report"
	"keyfold/sink/ledger/memory"
)

// habitsCmd measures what counting users' responses gains, on users whose habits are known: of
// each type a share that the user opens, and an hour of the day at which the user opens more.
type habitsCmd struct {
	Users int     `default:"300" help:"Users."`
	Days  int     `default:"40" help:"Days; the first half is for learning."`
	Seed  uint64  `default:"1" help:"Of users and notifications."`
	Bound float64 `default:"0.2" help:"The score's response of the set that counts responses."`
}

// Run compares four ways over the same users and notifications.
func (c *habitsCmd) Run(ctx context.Context, r *report.Report) error {
	for _, way := range []struct {
		name  string
		bound float64
		hour  bool
	}{
		{"responses not counted", 0, false},
		{"responses counted", c.Bound, false},
		{"at the likely hour, within 12 h", 0, true},
		{"both", c.Bound, true},
	} {
		w, err := c.play(ctx, way.bound, way.hour)
		if err != nil {
			return err
		}
		add := r.Of(way.name)
		add("notifications sent", "of a user and day", w.sent/float64(c.Users)/w.days)
		add("opened", "of a user and day", w.opened/float64(c.Users)/w.days)
		add("opened", "of 100 sent", 100*w.opened/w.sent)
		w.ledger.tell(add)
	}
	return nil
}

// habit is what is true of a user: the shares that the user opens by type, and the hour (UTC)
// around which it is more.
type habit struct {
	share [len(habitTypes)]float64
	hour  int
}

// habitTypes are the types that are posted, with the share that users open on average and how
// many a user gets a day.
var habitTypes = [...]struct {
	kind  notify.EventType
	usual float64
	daily float64
}{{notify.Promo, .1, 3}, {notify.Update, .4, 1.5}, {notify.Reminder, .3, .7}}

// drawHabit draws shares around the usual ones: a third of the users opens hardly any of a
// type, others three times as many as usual.
func drawHabit(random *rand.Rand) (h habit) {
	h.hour = 7 + random.IntN(15)
	for i := range h.share {
		h.share[i] = min(.9, habitTypes[i].usual*math.Exp(random.NormFloat64()*1.2-.5))
	}
	return h
}

// opens reports by chance whether a user opens a notification that is sent at an instant: near
// the user's hour twice as often as 6 hours away.
func (h *habit) opens(random *rand.Rand, t notify.EventType, at engine.Millis) bool {
	away := math.Abs(float64((at.Time().UTC().Hour()-h.hour+36)%24 - 12))
	for i, known := range habitTypes {
		if known.kind == t {
			return random.Float64() < h.share[i]*(.6+.8*math.Exp(-away*away/8))
		}
	}
	return false
}

// play is a world of users under one set.
type play struct {
	*habitsCmd
	habits []habit
	random *rand.Rand
	ledger *sized
	sent   float64
	opened float64
	days   float64
	counts bool // the days are those that are measured
	got    []notify.Dispatch
}

func (c *habitsCmd) play(ctx context.Context, bound float64, hour bool) (*play, error) {
	set, err := habitSet(bound, hour)
	if err != nil {
		return nil, err
	}
	w := &play{habitsCmd: c, random: rand.New(rand.NewPCG(c.Seed, 1)), ledger: &sized{Ledger: memory.New()}, days: float64(c.Days - c.Days/2)}
	people := rand.New(rand.NewPCG(c.Seed, 2))
	for range c.Users {
		w.habits = append(w.habits, drawHabit(people))
	}
	config := processor.DefaultConfig()
	config.Replay = true
	p, err := processor.New(config, processor.Ports{Ledger: w.ledger, Dispatcher: w, Sets: oneSet{set}})
	if err != nil {
		return nil, err
	}
	for day := range c.Days {
		w.counts = day >= c.Days/2
		p.Apply(ctx, w.post(day))
		if err := w.report(ctx); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return w, nil
}

type oneSet struct{ *notify.Set }

// Current implements [notify.Sets].
func (s oneSet) Current() *notify.Set { return s.Set }

// habitSet is the shipped set with a bound of responses and, where it is asked for, a rule that
// waits for the likely hour.
func habitSet(bound float64, hour bool) (*notify.Set, error) {
	document, faults := rule.Read(rule.Default())
	if document == nil {
		return nil, faults.Err()
	}
	document.Policy.Score.Response = bound
	if hour {
		document.Rules = append(document.Rules, rule.Rule{
			ID: uuid.New(), Name: "likely hour", Priority: 1, Enabled: true, Version: "1.0.0",
			Conditions: rule.Condition{Field: "event_type", Operator: "neq", Values: []notify.Value{{Kind: notify.String, Text: "SECURITY"}}},
			Action:     notify.Action{Outcome: notify.Later, Reason: "HABIT", Strategy: notify.LikelyHour, Within: 12 * 3_600_000},
		})
	}
	zone, err := quiet.LoadZone("UTC")
	if err != nil {
		return nil, err
	}
	return rule.Compile(document, notify.Local{Zone: zone, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}}), nil
}

var habitsBegin = engine.MillisOf(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))

// post returns the notifications of a day, which are the same under every set.
func (w *play) post(day int) (batches []processor.Batch) {
	random := rand.New(rand.NewPCG(w.Seed, 100+uint64(day)))
	for user := range w.habits {
		b := processor.Batch{User: fmt.Sprint(user)}
		for _, t := range habitTypes {
			for n := t.daily; n > 0 && random.Float64() < n; n-- {
				at := habitsBegin + engine.Millis(day)*86_400_000 + engine.Millis(random.IntN(14*3600)+7*3600)*1000
				b.Deliveries = append(b.Deliveries, processor.Delivery{Event: habitEvent(random, b.User, t.kind, at), At: at})
			}
		}
		slices.SortFunc(b.Deliveries, func(a, b processor.Delivery) int { return int(a.At - b.At) })
		if len(b.Deliveries) > 0 {
			batches = append(batches, b)
		}
	}
	return batches
}

func habitEvent(random *rand.Rand, user string, t notify.EventType, at engine.Millis) *notify.Notification {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(random.Uint32())
	}
	e := &notify.Notification{
		ID: id, UserID: user, Type: t, Title: fmt.Sprintf("News %d", random.Uint64()), Source: "shop",
		Hint: notify.Hint(1 + random.IntN(4)), Channels: []notify.Channel{notify.Push}, Timestamp: at,
	}
	e.Body, _ = json.Marshal(map[string]any{ // of texts: it cannot fail
		"event_id": id, "user_id": user, "event_type": t, "title": e.Title, "source": e.Source, "channel": e.Channels, "timestamp": at.Time(),
	})
	return e
}

// Send implements [notify.Dispatcher]: it takes all.
func (w *play) Send(_ context.Context, all []notify.Dispatch) []error {
	w.got = append(w.got, all...)
	return make([]error, len(all))
}

// report tells of a day's deliveries what the users did. A digest is opened as its first item
// would be.
func (w *play) report(ctx context.Context) error {
	var reports []notify.Report
	for i := range w.got {
		d := &w.got[i]
		r := &d.Records[0]
		var user int
		if _, err := fmt.Sscan(r.UserID, &user); err != nil {
			return err
		}
		one := notify.Report{Event: d.ID, Status: notify.Delivered, Channel: notify.Push, At: r.DecidedAt}
		reports = append(reports, one)
		opened := w.habits[user].opens(w.random, r.Type, r.DecidedAt)
		if opened {
			one.Read, one.At = notify.WasOpened, one.At+60_000
			reports = append(reports, one)
		}
		if w.counts {
			w.sent++
			if opened {
				w.opened++
			}
		}
	}
	w.got = w.got[:0]
	for part := range slices.Chunk(reports, 1000) {
		for _, err := range w.ledger.Apply(ctx, part) {
			if err != nil {
				return err
			}
		}
	}
	return nil
}
