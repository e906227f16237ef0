package processor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
	"keyfold/source/sample/notifications"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shippedSet compiles the shipped set for users in UTC.
func shippedSet(t testing.TB) *notify.Set {
	t.Helper()
	document, faults := rule.Read(rule.Default())
	if document == nil {
		t.Fatal(faults.Err())
	}
	zone, err := quiet.LoadZone("UTC")
	must.OK(t, err)
	return rule.Compile(document, notify.Local{Zone: zone, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})
}

type sets struct{ *notify.Set }

func (s sets) Current() *notify.Set { return s.Set }

// week is a small sample week, each event under a new pointer.
func week(t testing.TB) (events []*notify.Notification, users []notifications.User) {
	t.Helper()
	config := notifications.DefaultConfig()
	config.Users = 12
	config.Start = time.Date(2026, 3, 26, 0, 0, 0, 0, time.UTC) // a change to summer time is in it
	made := notifications.Generate(config)
	for i := range made.Events {
		events = append(events, parse(t, made.Events[i].Body))
	}
	return events, made.Users
}

func parse(t testing.TB, body []byte) *notify.Notification {
	t.Helper()
	event, err := notify.Parse(body, engine.Now())
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return event
}

// outbox is a dispatcher that keeps what it got. failing says what it refuses.
type outbox struct {
	mu      sync.Mutex
	got     []notify.Dispatch
	failing func(*notify.Dispatch) error
}

func (o *outbox) Send(_ context.Context, all []notify.Dispatch) []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	errs := make([]error, len(all))
	for i := range all {
		if o.failing != nil {
			errs[i] = o.failing(&all[i])
		}
		if errs[i] == nil {
			o.got = append(o.got, all[i])
		}
	}
	return errs
}

// sent returns how often each event was handed over.
func (o *outbox) sent() map[uuid.UUID]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := map[uuid.UUID]int{}
	for i := range o.got {
		for _, e := range o.got[i].Events {
			counts[e.ID]++
		}
	}
	return counts
}

// faulty is a ledger whose calls fail now and then.
type faulty struct {
	*memory.Ledger
	mu      sync.Mutex
	random  *rand.Rand
	percent int // of the calls and changes
	commits func(notify.Change) error
	noMarks bool // marks beside changes are not written
	// skipMarks: keys are locked by another call, and their marks are left out.
	skipMarks bool
	reads     int // calls of Undispatched
	noRecords bool
	damaged   []string // users that cannot be read
	// between is called once, after the users of a load are read and before the keys.
	between func()
}

var errFlaky = errors.New("the connection was reset")

func (f *faulty) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random != nil && f.random.IntN(100) < f.percent
}

func (f *faulty) Undispatched(ctx context.Context, before engine.Millis, n int) ([]notify.Dispatch, error) {
	f.reads++
	return f.Ledger.Undispatched(ctx, before, n)
}

func (f *faulty) Dispatches(ctx context.Context, keys []notify.Known) ([]notify.Dispatch, error) {
	if f.noRecords {
		return nil, ctx.Err()
	}
	return f.Ledger.Dispatches(ctx, keys)
}

func (f *faulty) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	if f.fails() {
		return nil, errFlaky
	}
	unreadable := &notify.UnreadableError{Users: map[string]error{}}
	for i := range asks {
		if slices.Contains(f.damaged, asks[i].User) {
			unreadable.Users[asks[i].User] = engine.ConfigurationError("ledger_corrupt", errFlaky)
		}
	}
	var before []notify.Standing
	if f.between != nil {
		before, _ = f.Ledger.Load(ctx, asks)
		f.between()
		f.between = nil
	}
	all, err := f.Ledger.Load(ctx, asks)
	for i := range before {
		all[i].State, all[i].Version = before[i].State, before[i].Version
	}
	if len(unreadable.Users) > 0 {
		err = unreadable
	}
	return all, err
}

func (f *faulty) Find(ctx context.Context, ids []uuid.UUID) ([]notify.Known, error) {
	if f.fails() {
		return nil, errFlaky
	}
	return f.Ledger.Find(ctx, ids)
}

// Commit loses answers after the write and before it, and lets another worker win.
func (f *faulty) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	errs := make([]error, len(changes))
	if f.skipMarks {
		marks = nil
	}
	if f.noMarks && len(changes) > 0 && len(marks) > 0 {
		return append(f.Ledger.Commit(ctx, changes, nil), errFlaky)
	}
	f.Ledger.Commit(ctx, nil, marks)
	for i := range changes {
		if f.commits != nil {
			errs[i] = f.commits(changes[i])
		}
		switch {
		case errs[i] != nil:
		case f.fails():
			errs[i] = engine.ErrConflict
		case f.fails():
			errs[i] = fmt.Errorf("%w: %w", engine.ErrUnknown, errFlaky)
		default:
			errs[i] = f.Ledger.Commit(ctx, changes[i:i+1], nil)[0]
			if errs[i] == nil && f.fails() {
				errs[i] = fmt.Errorf("%w: %w", engine.ErrUnknown, errFlaky)
			}
		}
	}
	return errs
}

// fixture is a processor with what it works on.
type fixture struct {
	*processor.Processor
	ledger *memory.Ledger
	faults *faulty
	out    *outbox
	now    engine.Millis
	beside *beside     // a candidate; nil: none
	set    *notify.Set // nil: the shipped one
	log    *slog.Logger
}

// noon is a Monday.
const noon = engine.Millis(1_774_872_000_000) // 2026-03-30T12:00:00Z

func newFixture(t testing.TB, replay bool, candidate ...*beside) *fixture {
	t.Helper()
	f := &fixture{ledger: memory.New(), out: &outbox{}, now: noon}
	if len(candidate) > 0 {
		f.beside = candidate[0]
	}
	f.faults = &faulty{Ledger: f.ledger}
	config := processor.DefaultConfig()
	config.Replay, config.Pause, config.MaxPause = replay, time.Microsecond, time.Millisecond
	config.Conflicts, config.Failures = 1000, 1000
	f.Processor = f.again(t, config)
	return f
}

// again is another process on the same ledger.
func (f *fixture) again(t testing.TB, config processor.Config) *processor.Processor {
	t.Helper()
	ports := processor.Ports{
		Ledger: f.faults, Dispatcher: f.out, Sets: sets{shippedSet(t)}, Clock: func() engine.Millis { return f.now }, Log: f.log,
	}
	if f.set != nil {
		ports.Sets = sets{f.set}
	}
	if f.beside != nil {
		ports.Sets, ports.Shadows = sets{f.beside.set(t)}, f.beside
	}
	p, err := processor.New(config, ports)
	must.OK(t, err)
	return p
}

// decide applies deliveries of any users at once and returns their verdicts.
func (f *fixture) decide(ctx context.Context, deliveries ...processor.Delivery) []processor.Verdict {
	verdicts := make([]processor.Verdict, len(deliveries))
	var batches []processor.Batch
	for i, d := range deliveries {
		d.Settler = processor.SettlerFunc(func(v processor.Verdict) {
			if verdicts[i].Outcome != 0 {
				panic("a delivery is settled twice")
			}
			verdicts[i] = v
		})
		at := slices.IndexFunc(batches, func(b processor.Batch) bool { return b.User == d.User() })
		if at < 0 {
			at = len(batches)
			batches = append(batches, processor.Batch{User: d.User()})
		}
		batches[at].Deliveries = append(batches[at].Deliveries, d)
	}
	f.Apply(ctx, batches)
	return verdicts
}

// records returns all records by user, without what differs between runs.
func (f *fixture) records(t testing.TB) map[string][]notify.Record {
	t.Helper()
	all := map[string][]notify.Record{}
	for d, err := range f.ledger.Records(t.Context(), ledger.Filter{Oldest: true}) {
		must.OK(t, err)
		r := d.Record
		r.DecisionID = uuid.Nil
		all[r.UserID] = append(all[r.UserID], r)
	}
	for _, records := range all {
		slices.SortFunc(records, func(a, b notify.Record) int { return int(a.Seq - b.Seq) })
	}
	return all
}

// post is an event that the shipped set decides NOW at noon.
func post(t testing.TB, user, kind, title string) *notify.Notification {
	t.Helper()
	return parse(t, fmt.Appendf(nil, `{"event_id":%q,"user_id":%q,"event_type":%q,"title":%q,"source":"test","channel":["push"],"priority_hint":"HIGH","timestamp":"2026-03-30T12:00:00Z"}`,
		uuid.NewSHA1(uuid.Nil, []byte(user+kind+title)), user, kind, title))
}
