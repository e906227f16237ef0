package notifysim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/proof/schedule"
)

// simulation is one running schedule.
type simulation struct {
	*schedule.Trace
	modelBug
	number  uint64
	plan    *plan
	store   *store
	broker  *broker
	senders *senders
	front   *front

	mu      sync.Mutex // guards all that follows and what store, broker and senders have; held while nothing waits
	lives   []*life    // by place; nil while none is there
	started []*life    // all of them
	over    bool       // no life begins any more
	erased  map[string]time.Time
	own     map[string]notify.Preferences // in force
	deaths  map[string]int                // of notifiers, by boundary
	faults  []error
}

// limit is how long a schedule may take.
const limit = 12 * time.Hour

// modelBug makes the model itself break a rule, to check that schedules notice.
type modelBug struct {
	blindCommits bool // the ledger does not look at versions
	shortLeases  bool // a claimed deferral can be claimed again at once
	lostCommits  bool // now and then a commit is answered that did not happen
	blindMerges  bool // a merge does not look at versions
	lateClocks   bool // a notifier looks at its clock 5 s before it dispatches
}

func newSimulation(number uint64, bug modelBug, out io.Writer) *simulation {
	plan := planOf(number)
	time.Sleep(time.Until(plan.began.Time()))
	s := &simulation{
		Trace: schedule.NewTrace(out), modelBug: bug, number: number, plan: plan,
		erased: map[string]time.Time{}, own: map[string]notify.Preferences{}, deaths: map[string]int{},
	}
	s.store, s.broker, s.senders = newStore(s), newBroker(s), &senders{simulation: s, greatest: map[uuid.UUID]notify.Delivery{}, said: map[uuid.UUID]notify.Reported{}}
	s.front = newFront(s)
	s.lives = make([]*life, s.plan.notifiers)
	return s
}

func (s *simulation) rng(what string, keys ...uint64) schedule.RNG {
	return schedule.Of(s.number, what, keys...)
}

// quiet reports whether faults are over.
func (s *simulation) quiet() bool { return time.Since(s.Began) >= s.plan.quietAfter }

// now is the clock that no notifier's differs from by more than 2 s.
func (s *simulation) now() engine.Millis {
	return engine.Now()
}

// fault notes a broken law. s.mu is held.
func (s *simulation) fault(format string, args ...any) {
	if len(s.faults) < 20 {
		s.faults = append(s.faults, fmt.Errorf(format, args...))
	}
}

// Report is what a schedule came to.
type Report struct {
	Hash   uint64 // of everything that happened, and when
	Lines  int
	Events int
	Time   time.Duration
	Counts counts
	Deaths map[string]int // of notifiers, by boundary
	Err    error          // the law that was broken
}

// run carries the schedule out.
func (s *simulation) run() Report {
	for _, u := range s.plan.users {
		s.setPreferences(u.id, u.prefs[0])
	}
	s.front.posting = len(s.plan.publishes)
	for _, p := range s.plan.publishes {
		time.AfterFunc(p.at, func() { s.front.post(p.event) })
	}
	s.front.cancelling = len(s.plan.cancels)
	for i, c := range s.plan.cancels {
		time.AfterFunc(c.at, func() { s.front.cancelOf(i) })
	}
	s.front.merging = len(s.plan.merges)
	for i, m := range s.plan.merges {
		time.AfterFunc(m.at, func() { s.front.mergeOf(i) })
	}
	for place := range s.lives {
		s.start(place)
	}
	for _, a := range s.plan.actions {
		time.Sleep(time.Until(s.Began.Add(a.at)))
		s.act(a)
	}
	err := s.settle()
	hash, lines := s.Sums() // of the schedule, not of the last stops
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for place := range s.lives {
		s.end(place, true, 0)
	}
	for _, k := range s.started {
		<-k.ended
	}
	s.front.cancel()
	err = errors.Join(err, s.check())
	return Report{
		Hash: hash, Lines: lines, Events: len(s.plan.events), Time: time.Since(s.Began),
		Counts: s.counts(), Deaths: s.deaths, Err: err,
	}
}

// act does what the plan has next.
func (s *simulation) act(a action) {
	s.Note("plan", disturbanceNames[a.disturbance], int64(a.on), a.span.Milliseconds())
	place, u := a.on%len(s.lives), &s.plan.users[a.on%len(s.plan.users)]
	switch a.disturbance {
	case kill, stop:
		s.end(place, a.disturbance == stop, a.span)
	case cut:
		s.mu.Lock()
		if k := s.lives[place]; k != nil {
			s.broker.takeBack(k)
		}
		s.mu.Unlock()
	case storeDown:
		s.mu.Lock()
		s.store.down, s.store.silent = time.Now().Add(a.span), a.flag
		s.mu.Unlock()
	case brokerDown:
		s.mu.Lock()
		s.broker.down = time.Now().Add(a.span)
		for _, k := range s.lives {
			if k != nil {
				s.broker.takeBack(k)
			}
		}
		s.mu.Unlock()
	case change:
		s.setPreferences(u.id, u.prefs[1])
	case erase:
		s.erase(u.id)
	}
}

// setPreferences replaces the preferences of whose id it is, unless the user is erased.
func (s *simulation) setPreferences(id string, own notify.Preferences) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = s.person(id)
	if _, gone := s.erased[id]; gone {
		return
	}
	if err := s.store.SetPreferences(context.Background(), id, own); err != nil {
		s.fault("preferences of user %s: %w", id, err)
	}
	s.own[id] = own
}

func (s *simulation) erase(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.store.Forget(context.Background(), id, s.now()); err != nil {
		s.fault("erasure of user %s: %w", id, err)
	}
	s.eraseAll(id)
}

// settle waits until nothing is left to do.
func (s *simulation) settle() error {
	time.Sleep(time.Until(s.Began.Add(s.plan.quietAfter)))
	d := s.rng("settle")
	for {
		time.Sleep(d.Between(5*time.Second, 10*time.Second))
		left := s.left()
		if left == "" {
			return nil
		}
		if time.Since(s.Began) > limit {
			return fmt.Errorf("after %v: %s", limit, left)
		}
	}
}

// left says what is left to do, "" for nothing. Letters are replayed.
func (s *simulation) left() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broker.replay()
	due, err := s.store.NextDue(context.Background())
	if err != nil {
		s.fault("next deferral: %w", err)
	}
	waiting, err := s.store.Undispatched(context.Background(), s.now()+engine.Millis(time.Hour.Milliseconds()), 1)
	if err != nil {
		s.fault("undispatched decisions: %w", err)
	}
	switch {
	case s.front.posting > 0:
		return fmt.Sprintf("%d posts are not answered", s.front.posting)
	case s.front.cancelling > 0:
		return fmt.Sprintf("%d cancellations are not answered", s.front.cancelling)
	case s.front.merging > 0:
		return fmt.Sprintf("%d merges are not answered", s.front.merging)
	case s.senders.reporting > 0:
		return fmt.Sprintf("%d reports are not applied", s.senders.reporting)
	case s.broker.live > 0:
		return fmt.Sprintf("%d messages are not acknowledged", s.broker.live)
	case s.store.late > 0:
		return fmt.Sprintf("%d commits are on their way", s.store.late)
	case due != 0:
		return fmt.Sprintf("a deferral waits until %v", due.Time())
	case len(waiting) > 0:
		return fmt.Sprintf("dispatch %v is not confirmed", waiting[0].ID)
	}
	s.senders.over = true // a sender may be slow until the notifiers have stopped
	return ""
}

// pause waits for d, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
