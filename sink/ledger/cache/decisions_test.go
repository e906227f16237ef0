package cache_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledger/memory"
)

type sets struct{ set *notify.Set }

func (s sets) Current() *notify.Set { return s.set }

// shipped is the set of the trial.
var shipped = sync.OnceValue(func() *notify.Set {
	document, _ := rule.Read(rule.Default())
	return rule.Compile(document, notify.Local{Zone: quiet.UTC, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})
})

// sent confirms every hand-over.
type sent struct{}

func (sent) Send(_ context.Context, all []notify.Dispatch) []error { return make([]error, len(all)) }

const noon = engine.Millis(1_774_872_000_000) // 2026-03-30T12:00:00Z, a Monday

// world is workers over one store.
type world struct {
	store   *memory.Ledger
	workers []*processor.Processor
	now     engine.Millis
}

// newWorld returns workers, each with a cache of so many bytes; 0: without.
func newWorld(workers int, bytes int64) *world {
	w := &world{store: memory.New(), now: noon}
	for range workers {
		var l notify.Ledger = w.store
		if bytes > 0 {
			l = cache.New(l, bytes)
		}
		w.workers = append(w.workers, newProcessor(l, func() engine.Millis { return w.now }))
	}
	return w
}

func newProcessor(l notify.Ledger, clock func() engine.Millis) *processor.Processor {
	config := processor.DefaultConfig()
	config.Pause = time.Microsecond
	p, err := processor.New(config, processor.Ports{Ledger: l, Dispatcher: sent{}, Sets: sets{shipped()}, Clock: clock})
	if err != nil {
		panic(err) // of the default settings
	}
	return p
}

// apply decides deliveries at a worker, and returns their verdicts without what differs
// between runs.
func (w *world) apply(worker int, deliveries []processor.Delivery) (verdicts []string) {
	verdicts = make([]string, len(deliveries))
	var batches []processor.Batch
	for i, d := range deliveries {
		d.Settler = processor.SettlerFunc(func(v processor.Verdict) {
			for j := range v.Records {
				v.Records[j].DecisionID = uuid.Nil
			}
			v.Key.DecisionID = uuid.Nil
			verdicts[i] = fmt.Sprintf("%v %+v %+v %v", v.Outcome, v.Records, v.Key, v.Err)
		})
		at := slices.IndexFunc(batches, func(b processor.Batch) bool { return b.User == d.User() })
		if at < 0 {
			at, batches = len(batches), append(batches, processor.Batch{User: d.User()})
		}
		batches[at].Deliveries = append(batches[at].Deliveries, d)
	}
	p := w.workers[worker%len(w.workers)]
	p.Apply(ctx, batches)
	_ = p.Mark(ctx)
	return verdicts
}

// due claims what is due; a digest is one delivery.
func (w *world) due(t *rapid.T) (deliveries []processor.Delivery) {
	all, err := w.store.Claim(ctx, w.now, w.now+60_000, 100)
	must.OK(t, err)
	for _, d := range all {
		at := slices.IndexFunc(deliveries, func(o processor.Delivery) bool {
			return d.DigestKey != "" && o.Due[0].DigestKey == d.DigestKey && o.Due[0].DueAt == d.DueAt && o.User() == d.Event.UserID
		})
		if at < 0 {
			at, deliveries = len(deliveries), append(deliveries, processor.Delivery{})
		}
		deliveries[at].Due = append(deliveries[at].Due, d)
	}
	return deliveries
}

// records returns all records without their ids, and the stored users.
func (w *world) records(t *rapid.T) (all []notify.Record, users []notify.Standing) {
	for _, user := range userNames {
		for d, err := range w.store.Records(ctx, ledger.Filter{User: user, Oldest: true}) {
			must.OK(t, err)
			d.Record.DecisionID = uuid.Nil
			all = append(all, d.Record)
		}
		s, err := w.store.Load(ctx, []notify.Ask{{User: user}})
		must.OK(t, err)
		users = append(users, s[0])
	}
	return all, users
}

var userNames = []string{"1", "2", "3"}

// However events come, come again, are deferred and meet changes of preferences and
// erasures, at whichever worker: with caches the decisions are the same.
//
// Promise(ledger/cache)
func TestDecisionsAreTheSameWithCaches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 3).Draw(t, "workers")
		bytes := rapid.SampledFrom([]int64{1 << 20, 1200}).Draw(t, "bytes") // of all users, or of about two
		worlds := []*world{newWorld(1, 0), newWorld(workers, bytes)}
		var events []*notify.Notification
		for step := range rapid.IntRange(5, 40).Draw(t, "steps") {
			pause := engine.Millis(rapid.SampledFrom([]int{0, 1000, 120_000, 3_600_000}).Draw(t, "pause"))
			for _, w := range worlds {
				w.now += pause
			}
			worker, user := rapid.IntRange(0, 2).Draw(t, "worker"), rapid.SampledFrom(userNames).Draw(t, "user")
			var verdicts [2][]string
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			default:
				deliveries := drawDeliveries(t, &events, worlds[0].now, step)
				for i, w := range worlds {
					verdicts[i] = w.apply(worker, slices.Clone(deliveries))
				}
			case 7, 8:
				for i, w := range worlds {
					if due := w.due(t); len(due) > 0 {
						verdicts[i] = w.apply(worker, due)
					}
				}
			case 9:
				own := notify.Preferences{Caps: notify.Caps{rapid.IntRange(1, 3).Draw(t, "cap")}}
				forget := rapid.IntRange(0, 4).Draw(t, "forget") == 0
				for _, w := range worlds {
					if forget {
						_ = w.store.Forget(ctx, user, w.now)
					} else {
						_ = w.store.SetPreferences(ctx, user, own) // refused of an erased user, in both
					}
				}
			}
			if !reflect.DeepEqual(verdicts[0], verdicts[1]) {
				t.Fatalf("without caches: %v\nwith: %v", verdicts[0], verdicts[1])
			}
		}
		records, users := worlds[0].records(t)
		others, same := worlds[1].records(t)
		if !reflect.DeepEqual(records, others) || !reflect.DeepEqual(users, same) {
			t.Fatalf("without caches:\n%+v\nwith:\n%+v", records, others)
		}
	})
}

// drawDeliveries draws new events and some that came before, which the source knows or
// does not know to be repeats.
func drawDeliveries(t *rapid.T, events *[]*notify.Notification, now engine.Millis, step int) (all []processor.Delivery) {
	for i := range rapid.IntRange(1, 4).Draw(t, "deliveries") {
		if len(*events) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
			e := rapid.SampledFrom(*events).Draw(t, "event")
			all = append(all, processor.Delivery{Event: e, Redelivered: rapid.Bool().Draw(t, "redelivered")})
			continue
		}
		kind := rapid.SampledFrom(notify.EventTypes[:]).Draw(t, "type")
		e, err := notify.Parse(fmt.Appendf(nil,
			`{"event_id":%q,"user_id":%q,"event_type":%q,"title":"Order %d","source":"shop","channel":["push"],"timestamp":%q}`,
			uuid.NewSHA1(uuid.Nil, fmt.Append(nil, step, i)), rapid.SampledFrom(userNames).Draw(t, "user"), kind,
			rapid.IntRange(1, 5).Draw(t, "title"), now.Time().UTC().Format(time.RFC3339)), now)
		must.OK(t, err)
		*events = append(*events, e)
		all = append(all, processor.Delivery{Event: e})
	}
	return all
}

// A flush makes two calls of the ledger, and one where its users are cached.
//
// Promise(ledger/round-trips)
func TestCallsPerFlush(t *testing.T) {
	behind := &counting{Ledger: memory.New()}
	p := newProcessor(cache.New(behind, 1<<20), func() engine.Millis { return noon })
	flush := func(redelivered bool) (calls int64) {
		before := behind.loads.Load() + behind.commits.Load()
		var batches []processor.Batch
		for user := range 50 {
			e := newEvent(t, fmt.Sprint(user))
			batches = append(batches, processor.Batch{User: e.UserID, Deliveries: []processor.Delivery{{Event: e, Redelivered: redelivered}}})
		}
		p.Apply(ctx, batches)
		return behind.loads.Load() + behind.commits.Load() - before
	}
	for i, want := range []int64{2, 1, 1, 1} {
		if got := flush(false); got != want {
			t.Errorf("flush %d: %d calls, want %d", i, got, want)
		}
	}
	if got := flush(true); got != 2 {
		t.Errorf("%d calls for events that came again, want 2", got)
	}
	if n := p.Stats().Outcomes[processor.Decided].Load(); n != 250 {
		t.Errorf("%d decided", n)
	}
}

func newEvent(t testing.TB, user string) *notify.Notification {
	t.Helper()
	e, err := notify.Parse(fmt.Appendf(nil,
		`{"event_id":%q,"user_id":%q,"event_type":"SECURITY","title":"New device","source":"shop","channel":["push"],"timestamp":"2026-03-30T12:00:00Z"}`,
		uuid.New(), user), noon)
	must.OK(t, err)
	return e
}
