package sim

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"keyfold/engine/profile"
	"keyfold/proof/oracle"
	"keyfold/proof/schedule"

	"keyfold/source/vector"
)

// modelBug makes the model itself break a rule, to check that schedules notice.
type modelBug struct {
	dirtyReads bool // reads show what a majority may never have
	blindSwaps bool // the store does not look at versions
}

// kind is what a schedule runs on.
type kind struct {
	modelBug
	// deep: profiles go through sink/mongodb and the driver to a test server.
	deep bool
}

// simulation is one running schedule.
type simulation struct {
	*schedule.Trace
	number uint64
	plan   *plan
	kind
	broker   *broker
	store    *store
	server   *server // instead of it, in a deep schedule
	profiles profileStore
	workers  []*worker // by place; nil while none is there
	erasures sync.WaitGroup
	todo     []action       // by time
	failures map[string]int // of phrases; guarded by the store's mu
	started  []*worker      // all of them
	wires    uint64         // guarded by the broker's mu
	badAcks  int            // acknowledgements of tags that were not out
	limit    time.Duration
	dropped  bool // a profile dropped ids
}

// profileStore is where a schedule's profiles are, as its faults and its checks see
// it: the model's store, or a deep schedule's server.
type profileStore interface {
	takeDown(span time.Duration, hangs bool) // no answer for a while: silence, or errors
	failOver(a action)
	erase(user int32) // replaces the profile by a tombstone
	heal()            // ends all faults
	stored() (map[int32]*profile.Profile, error)
}

func newSimulation(number uint64, k kind, out io.Writer) *simulation {
	w := &simulation{
		Trace: schedule.NewTrace(out), number: number,
		plan: planOf(number, k.deep), kind: k, limit: 6 * time.Hour,
	}
	w.store = newStore(w)
	w.profiles = w.store
	w.failures = map[string]int{}
	w.todo = slices.Clone(w.plan.actions)
	w.broker = newBroker(w)
	w.workers = make([]*worker, w.plan.workers)
	return w
}

func (w *simulation) rng(what string, keys ...uint64) schedule.RNG {
	return schedule.Of(w.number, what, keys...)
}

// quiet reports whether faults are over.
func (w *simulation) quiet() bool { return time.Since(w.Began) >= w.plan.quietAfter }

// laws are the engine's settings of a schedule.
func (w *simulation) laws() profile.Config {
	c := profile.DefaultConfig()
	c.Dimensions, c.Model, c.IDs = w.plan.dimensions, vector.HashModel, w.plan.ids
	c.ShortHalfLife = w.plan.short
	for i, t := range listedTypes {
		c.Weights[t] = ownTypes[i].Weight
	}
	return c
}

// Report is what a schedule came to.
type Report struct {
	Hash   uint64 // of everything that happened, and when
	Lines  int
	Events int // different ones
	Time   time.Duration
	// Dropped: a profile dropped ids of folded events.
	Dropped bool
	Err     error // the law that was broken
}

// run carries the schedule out.
func (w *simulation) run() Report {
	if w.deep {
		var err error
		if w.server, err = newServer(w); err != nil {
			return Report{Err: err}
		}
		w.profiles = w.server
	}
	w.publishAll()
	for place := range w.workers {
		w.start(place)
	}
	for len(w.todo) > 0 {
		a := w.todo[0]
		w.todo = w.todo[1:]
		time.Sleep(time.Until(w.Began.Add(a.at)))
		w.act(a)
	}
	err := w.settle()
	w.erasures.Wait()
	for place := range w.workers {
		w.stop(place, true)
	}
	for _, k := range w.started {
		<-k.stopped
	}
	time.Sleep(2 * callTimeout) // writes that are late arrive
	hash, lines := w.Sums()     // of the schedule, not of the clearing up
	defer w.clear()
	err = errors.Join(errors.Join(w.broker.faults...), errors.Join(w.store.faults...), err, w.check())
	return Report{Hash: hash, Lines: lines, Events: len(w.plan.events), Time: time.Since(w.Began), Dropped: w.dropped, Err: err}
}

// clear ends what the model still runs: the clock of a bubble stands still once
// this has returned.
func (w *simulation) clear() {
	w.broker.mu.Lock()
	for _, p := range w.broker.conns {
		p.wire.cut(true)
	}
	w.broker.mu.Unlock()
	if w.server != nil {
		_ = w.server.Close()
	}
	time.Sleep(time.Minute)
}

func (w *simulation) publishAll() {
	for _, p := range w.plan.publishes {
		time.AfterFunc(p.at, func() { w.broker.publish(p.event) })
	}
}

// settle waits until every queue is empty.
func (w *simulation) settle() error {
	time.Sleep(time.Until(w.Began.Add(w.plan.quietAfter)))
	w.profiles.heal()
	d := w.rng("settle")
	for !w.broker.idle() {
		if time.Since(w.Began) > w.limit {
			b := w.broker
			b.mu.Lock()
			defer b.mu.Unlock()
			return fmt.Errorf("after %v the queues are not empty: %d ready, %d unacknowledged, %d delayed",
				w.limit, len(b.ready), b.unacked, b.delayed)
		}
		time.Sleep(d.Between(500*time.Millisecond, time.Second))
	}
	return nil
}

// check compares profiles and dead letters with what they must be.
func (w *simulation) check() error {
	if !w.broker.idle() {
		return errors.New("the queues are not empty")
	}
	w.broker.mu.Lock()
	letters, reasons := w.broker.letters, w.broker.reasons
	w.broker.mu.Unlock()
	o, err := oracle.New(w.laws(), slices.Collect(maps.Values(w.plan.shop)))
	if err != nil {
		return err
	}
	for _, own := range ownTypes {
		o.AddType(own.Name, own.Phrase, own.Weight)
	}
	var faults []error
	for i := range w.plan.events {
		e := &w.plan.events[i]
		erased := w.plan.erased[e.user]
		switch n := letters[i]; {
		case e.fate.dead() && n == 0 && (!erased || e.fate == poison):
			faults = append(faults, fmt.Errorf("event %d is not among the dead letters: %s", i, e.body))
		case !e.fate.dead() && n > 0:
			faults = append(faults, fmt.Errorf("event %d is a dead letter, %d times (%s): %s", i, n, reasons[i], e.body))
		}
		if !e.fate.dead() && !erased {
			if err := o.Add(e.body); err != nil {
				return err
			}
		}
	}
	return errors.Join(append(faults, w.checkProfiles(o))...)
}

// checkProfiles compares what is stored with what the oracle folded.
func (w *simulation) checkProfiles(o *oracle.Oracle) error {
	stored, err := w.profiles.stored()
	if err != nil {
		return err
	}
	for user, p := range stored {
		if !p.Erased() {
			w.dropped = w.dropped || p.Applied.Floor != 0
			continue
		}
		if delete(stored, user); !w.plan.erased[user] {
			return fmt.Errorf("user %d has a tombstone, and the plan erases no such user", user)
		}
	}
	return o.CheckAll(stored)
}
