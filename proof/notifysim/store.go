package notifysim

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
	"keyfold/proof/schedule"
	"keyfold/sink/ledger/cache"
	"keyfold/sink/ledger/memory"
)

// store is the ledger. The simulation's mu guards what it has beside it.
type store struct {
	*simulation
	*memory.Ledger
	down   time.Time // until then it is away
	silent bool      // it does not answer, else it refuses
	log    []notify.Record
	leases map[uuid.UUID]engine.Millis // of claimed deferrals, by the clock of the claimer
	late   int                         // commits that are on their way
	merges []notifyoracle.Merge        // that were written

	conflicts int64 // of merges
}

func newStore(s *simulation) *store {
	return &store{simulation: s, Ledger: memory.New(), leases: map[uuid.UUID]engine.Millis{}}
}

// apply writes to the ledger and checks what was written.
func (s *store) apply(changes []notify.Change, marks []notify.DispatchMark) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.rng("lost commit", schedule.InstantOf(time.Now())); s.lostCommits && d.Chance(50) {
		return make([]error, len(changes))
	}
	errs := s.commit(changes, marks)
	for i := range changes {
		if errs[i] != nil {
			continue
		}
		c := &changes[i]
		for j := range c.Decided {
			r := c.Decided[j].Record
			r.Reasons, r.Spent = slices.Clone(r.Reasons), slices.Clone(r.Spent)
			s.log = append(s.log, r)
			delete(s.leases, r.EventID)
			if _, gone := s.erased[r.UserID]; !gone && s.person(r.UserID) != r.UserID {
				s.fault("event %v is recorded under %s, an alias of %s", r.EventID, r.UserID, s.person(r.UserID))
			}
			s.checkPreferences(&r)
			s.Note("store", "written: "+c.User+" "+r.Outcome.String(), r.Seq, int64(r.Turn), int64(r.DecidedAt))
		}
		for _, p := range c.Postponed {
			delete(s.leases, p.EventID)
		}
	}
	return errs
}

// commit is the ledger's, or that of a model that breaks a rule.
func (s *store) commit(changes []notify.Change, marks []notify.DispatchMark) []error {
	if s.blindCommits {
		changes = slices.Clone(changes)
		for i := range changes {
			found, err := s.Load(context.Background(), []notify.Ask{{User: changes[i].User}})
			if err != nil {
				s.fault("load user %s: %w", changes[i].User, err)
				continue
			}
			changes[i].Version = found[0].Version
		}
	}
	return s.Commit(context.Background(), changes, marks)
}

// applyLater is apply after a while.
func (s *store) applyLater(wait time.Duration, changes []notify.Change, marks []notify.DispatchMark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late++
	time.AfterFunc(wait, func() {
		s.apply(changes, marks)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late--
	})
}

// checkPreferences checks that a decision was made with the preferences that are in
// force when it is written.
func (s *store) checkPreferences(r *notify.Record) {
	if _, gone := s.erased[r.UserID]; gone {
		return
	}
	own, read := s.own[r.UserID], r.Facts.Preferences
	own.Zone, read.Zone = nil, nil // of the read ones it is the zone in force
	if !reflect.DeepEqual(own, read) {
		s.fault("user %s: event %v is decided with preferences that were replaced before", r.UserID, r.EventID)
	}
}

// client is a life's way to the store.
type client struct {
	*life
	store *store
}

var (
	errDead    = errors.New("sim: the process is gone")
	errRefused = errors.New("sim: connection refused")
	errTimeout = errors.New("sim: no answer")
)

// ledger returns the life's ledger, with or without a cache in front of it.
func (k *life) ledger() notify.Ledger {
	c := &client{k, k.store}
	d := k.rng("cache", k.number)
	if bytes := []int64{0, 1000, 1 << 20}[d.N(3)]; bytes > 0 {
		return cache.New(c, bytes)
	}
	return c
}

// request carries a call to the store, or says why it did not arrive.
func (c *client) request(ctx context.Context, kind string, key uint64) (d schedule.RNG, err error) {
	d = c.rng("call "+kind, c.number, key, schedule.InstantOf(time.Now()))
	if c.dead.Load() {
		return d, errDead
	}
	if err := c.travel(ctx, &d); err != nil || c.quiet() {
		return d, err
	}
	c.mu.Lock()
	down, silent := c.store.down, c.store.silent
	c.mu.Unlock()
	switch {
	case time.Now().Before(down) && silent:
		if err := pause(ctx, min(time.Until(down), d.Between(5*time.Second, 10*time.Second))); err != nil {
			return d, err
		}
		return d, fmt.Errorf("%w: %w", engine.ErrAway, errTimeout)
	case time.Now().Before(down):
		return d, fmt.Errorf("%w: %w", engine.ErrAway, errRefused)
	case d.Chance(c.plan.rates.refused):
		return d, errRefused
	case d.Chance(c.plan.rates.hangs):
		if err := pause(ctx, d.Between(time.Second, 20*time.Second)); err != nil {
			return d, err
		}
		return d, errTimeout
	}
	return d, nil
}

// travel takes the time of a message to the store or back.
func (c *client) travel(ctx context.Context, d *schedule.RNG) error {
	if !c.quiet() && d.Chance(c.plan.rates.slow) {
		return pause(ctx, d.Between(100*time.Millisecond, 40*time.Second))
	}
	return pause(ctx, d.Between(50*time.Microsecond, 3*time.Millisecond))
}

// answer carries the answer of a call that arrived back.
func (c *client) answer(ctx context.Context, d *schedule.RNG) error {
	err := c.travel(ctx, d)
	switch {
	case err != nil:
		return err
	case c.dead.Load():
		return errDead
	case !c.quiet() && d.Chance(c.plan.rates.lost):
		return errTimeout
	}
	return nil
}

// ask is a call that changes nothing.
func ask[T any](ctx context.Context, c *client, kind string, key uint64, read func(context.Context) (T, error)) (answer T, err error) {
	var none T
	d, err := c.request(ctx, kind, key)
	if err != nil {
		return none, err
	}
	if answer, err = read(context.Background()); err != nil {
		return none, err
	}
	if err := c.answer(ctx, &d); err != nil {
		return none, err
	}
	return answer, nil
}

// keyOf is a part of an id as a key.
func keyOf(id uuid.UUID) uint64 {
	var key uint64
	for _, b := range id[:8] {
		key = key<<8 | uint64(b)
	}
	return key
}

// Load implements [notify.Ledger].
func (c *client) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	var key uint64
	if len(asks) > 0 && len(asks[0].Events) > 0 {
		key = keyOf(asks[0].Events[0])
	}
	return ask(ctx, c, "load", key, func(ctx context.Context) ([]notify.Standing, error) {
		all, err := c.store.Load(ctx, asks)
		for i := range all {
			all[i].Deferred = copied(all[i].Deferred)
		}
		return all, err
	})
}

// copied returns deferrals with events of their own, as another process reads them.
func copied(all []notify.Due) []notify.Due {
	all = slices.Clone(all)
	for i := range all {
		e := *all[i].Event
		all[i].Event = &e
	}
	return all
}

// Find implements [notify.Ledger].
func (c *client) Find(ctx context.Context, decisions []uuid.UUID) ([]notify.Known, error) {
	return ask(ctx, c, "find", 0, func(ctx context.Context) ([]notify.Known, error) { return c.store.Find(ctx, decisions) })
}

// Undispatched implements [notify.Ledger].
func (c *client) Undispatched(ctx context.Context, before engine.Millis, n int) ([]notify.Dispatch, error) {
	return ask(ctx, c, "undispatched", uint64(before), func(ctx context.Context) ([]notify.Dispatch, error) {
		all, err := c.store.Undispatched(ctx, before, n)
		return ownEvents(all), err
	})
}

// Dispatches implements [notify.Ledger].
func (c *client) Dispatches(ctx context.Context, keys []notify.Known) ([]notify.Dispatch, error) {
	return ask(ctx, c, "dispatches", uint64(len(keys)), func(ctx context.Context) ([]notify.Dispatch, error) {
		all, err := c.store.Dispatches(ctx, keys)
		return ownEvents(all), err
	})
}

// ownEvents gives the process copies of the store's events.
func ownEvents(all []notify.Dispatch) []notify.Dispatch {
	for i := range all {
		all[i].Events = slices.Clone(all[i].Events)
		for j, e := range all[i].Events {
			own := *e
			all[i].Events[j] = &own
		}
	}
	return all
}

// NextDue implements [notify.Deferrals].
func (c *client) NextDue(ctx context.Context) (engine.Millis, error) {
	return ask(ctx, c, "next due", 0, c.store.NextDue)
}

// Forget implements [notify.Ledger]. Erasures are the schedule's own.
func (c *client) Forget(context.Context, string, engine.Millis) error { panic("sim: not a notifier's") }

// Claim implements [notify.Deferrals]. A claim whose answer is lost has taken its leases.
func (c *client) Claim(ctx context.Context, now, leaseEnd engine.Millis, n int) ([]notify.Due, error) {
	due, err := ask(ctx, c, "claim", uint64(now), func(ctx context.Context) ([]notify.Due, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		end := leaseEnd
		if c.shortLeases {
			end = now
		}
		due, err := c.store.Claim(ctx, now, end, n)
		for i := range due {
			id := due[i].Event.ID
			if end, ok := c.store.leases[id]; ok && end > now {
				c.fault("event %v is claimed at %d, and its lease ends at %d", id, now, end)
			}
			c.store.leases[id] = leaseEnd
			c.Note("store", "claimed", int64(c.number), int64(due[i].Turn.Number), int64(due[i].DueAt))
		}
		return copied(due), err
	})
	if len(due) > 0 {
		c.pass(claimed)
	}
	return due, err
}

// Release implements [notify.Deferrals].
func (c *client) Release(ctx context.Context, events []uuid.UUID) error {
	_, err := ask(ctx, c, "release", keyOf(events[0]), func(ctx context.Context) (struct{}, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range events {
			delete(c.store.leases, id)
		}
		return struct{}{}, c.store.Release(ctx, events)
	})
	return err
}

// Lease implements [notify.Leases].
func (c *client) Lease(ctx context.Context, name string, holder uuid.UUID, now, until engine.Millis) (bool, error) {
	return ask(ctx, c, "lease", uint64(now), func(ctx context.Context) (bool, error) {
		return c.store.Lease(ctx, name, holder, now, until)
	})
}

// Commit implements [notify.Ledger].
func (c *client) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	var key uint64
	if len(changes) > 0 {
		c.pass(beforeCommit)
		if decided := changes[0].Decided; len(decided) > 0 {
			key = keyOf(decided[0].Record.EventID) + uint64(decided[0].Record.Turn)
		}
	}
	d, err := c.request(ctx, "commit", key)
	if err != nil {
		return c.failed(changes, marks, err)
	}
	if !c.quiet() && d.Chance(c.plan.rates.lost) {
		return c.lose(ctx, &d, changes, marks)
	}
	errs := c.store.apply(changes, marks)
	if err := c.answer(ctx, &d); err != nil {
		return c.failed(changes, marks, err)
	}
	if len(changes) > 0 {
		c.pass(afterCommit)
	}
	if len(marks) > 0 {
		c.pass(marked)
	}
	return errs
}

// failed is the answer of a commit of which nothing is known.
func (c *client) failed(changes []notify.Change, marks []notify.DispatchMark, err error) []error {
	errs := make([]error, len(changes)+min(len(marks), 1))
	for i := range errs {
		errs[i] = fmt.Errorf("%w: %w", engine.ErrUnknown, err)
	}
	return errs
}

// lose loses the answer of a commit, and perhaps the commit.
func (c *client) lose(ctx context.Context, d *schedule.RNG, changes []notify.Change, marks []notify.DispatchMark) []error {
	unknown := c.failed(changes, marks, errTimeout)
	wait := d.Latency(100*time.Millisecond, 20*time.Second)
	switch d.N(5) {
	case 0: // it does not happen
	case 1: // it happens
		c.store.apply(changes, marks)
	case 2: // it happens before or after the caller has stopped waiting
		c.store.applyLater(d.Between(0, 3*wait), changes, marks)
	case 3: // the first changes are written, and that is known
		n := d.N(len(changes) + 1)
		copy(unknown, c.store.apply(changes[:n], nil))
	case 4: // all are written, and of some that is known
		for i, err := range c.store.apply(changes, marks) {
			if d.Chance(500) {
				unknown[i] = err
			}
		}
	}
	if err := pause(ctx, wait); err != nil {
		return c.failed(changes, marks, err)
	}
	return unknown
}
