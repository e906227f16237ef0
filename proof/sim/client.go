package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/proof/schedule"
)

// client is one worker's connection to the store: the profiles and the catalogue of
// products.
type client struct {
	*store
	of      *worker
	writing map[int32]bool // users with a write in flight; guarded by the store's mu
}

// beginWrites notes that writes of these users are on their way, one of each.
func (c *client) beginWrites(profiles []*profile.Profile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range profiles {
		if c.writing[p.UserID] {
			c.Note("store", "LAW BROKEN: two writes in flight", int64(c.of.life), int64(p.UserID))
			c.faults = append(c.faults, fmt.Errorf("%v: worker %d has two writes of user %d in flight",
				time.Since(c.Began), c.of.life, p.UserID))
		}
		c.writing[p.UserID] = true
	}
}

func (c *client) endWrites(profiles []*profile.Profile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range profiles {
		delete(c.writing, p.UserID)
	}
}

var (
	errFailed = errors.New("sim: the call failed")
	errReply  = errors.New("sim: the reply was lost")
)

// Load implements [profile.Profiles].
func (c *client) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if err := c.of.alive(ctx); err != nil {
		return nil, err
	}
	d := c.rngFor(c.of.life, "load", users[0])
	if err := c.reach(ctx, &d); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.advance()
	from := c.committed
	if c.dirtyReads {
		from = c.latest
	}
	found := make([]*profile.Profile, len(users))
	for i, user := range users {
		found[i] = from[user]
	}
	c.mu.Unlock()
	if !c.quiet() && d.Chance(c.plan.rates.load) {
		c.Note("store", "read failed", int64(users[0]))
		return nil, errFailed
	}
	return found, pause(ctx, d.Latency(2*time.Millisecond, 200*time.Millisecond))
}

// Now implements [profile.Profiles]. The store's clock is not the workers', and
// moves with the primary.
func (c *client) Now(ctx context.Context) (engine.Millis, error) {
	if err := c.of.alive(ctx); err != nil {
		return 0, err
	}
	d := c.rngFor(c.of.life, "now", 0)
	if err := c.reach(ctx, &d); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return engine.MillisOf(time.Now().Add(c.skew)), nil
}

// Products implements the catalogue's store.
func (c *client) Products(ctx context.Context, ids []int32) ([]profile.Product, error) {
	if err := c.of.alive(ctx); err != nil {
		return nil, err
	}
	d := c.rngFor(c.of.life, "products", ids[0])
	if err := c.reach(ctx, &d); err != nil {
		return nil, err
	}
	if !c.quiet() && d.Chance(c.plan.rates.products) {
		return nil, errFailed
	}
	var found []profile.Product
	for _, id := range ids {
		if p, ok := c.plan.shop[id]; ok {
			found = append(found, p)
		}
	}
	return found, nil
}

// Probe answers the breaker: whether the store can be reached. It writes nothing.
func (c *client) Probe(ctx context.Context) error {
	if err := c.of.alive(ctx); err != nil {
		return err
	}
	d := c.rngFor(c.of.life, "probe", 0)
	if err := pause(ctx, d.Between(50*time.Millisecond, time.Second)); err != nil {
		return err
	}
	return c.reach(ctx, &d)
}

// Close implements the worker's store.
func (c *client) Close() error { return nil }

// Swap implements [profile.Profiles]. What a call does at the store happens also
// when its worker dies meanwhile.
func (c *client) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	if err := c.of.alive(ctx); err != nil {
		return all(len(profiles), err)
	}
	c.beginWrites(profiles)
	defer c.endWrites(profiles)
	s := &swap{
		client: c, d: c.rngFor(c.of.life, "swap", profiles[0].UserID), profiles: profiles,
		errs: make([]error, len(profiles)), done: make(chan struct{}),
	}
	s.fault = s.draw()
	away, _ := c.away()
	if away && s.fault != late {
		return all(len(profiles), c.reach(ctx, &s.d))
	}
	time.AfterFunc(s.d.Latency(3*time.Millisecond, 300*time.Millisecond), s.arrive)
	limit := time.NewTimer(callTimeout)
	defer limit.Stop()
	select {
	case <-s.done:
		return s.errs
	case <-limit.C:
		return all(len(profiles), fmt.Errorf("%w: no answer in time", engine.ErrUnknown))
	case <-ctx.Done():
		return all(len(profiles), fmt.Errorf("%w: %w", engine.ErrUnknown, ctx.Err()))
	}
}

func all(n int, err error) []error {
	if err == nil {
		err = errStoreDown // it came back meanwhile, and nothing was sent
	}
	return slices.Repeat([]error{err}, n)
}

// swapFault is what goes wrong with a call.
type swapFault uint8

const (
	none    swapFault = iota
	refused           // nothing is written
	partial           // the first ones are written, the others not begun
	reply             // written, and the answer lost
	late              // written around the worker's time-out, or after it
)

// swap is one call at the store.
type swap struct {
	*client
	d        schedule.RNG
	fault    swapFault
	profiles []*profile.Profile
	entries  []*entry
	errs     []error
	done     chan struct{} // closed with the answer or the error; of lost replies only every other one
}

func (s *swap) draw() swapFault {
	if s.quiet() || !s.d.Chance(s.plan.rates.swap) {
		return none
	}
	return swapFault(1 + s.d.N(int(late)))
}

// arrive carries the call out.
func (s *swap) arrive() {
	switch s.fault {
	case refused:
		s.Note("store", "write refused", int64(s.profiles[0].UserID))
		copy(s.errs, slices.Repeat([]error{errFailed}, len(s.errs)))
		close(s.done)
		return
	case late:
		s.Note("store", "write is late", int64(s.profiles[0].UserID))
		time.AfterFunc(callTimeout+s.d.Between(-2*time.Second, 5*time.Second), s.write)
		return
	}
	s.write()
}

// write writes the profiles and waits for a majority.
func (s *swap) write() {
	s.mu.Lock()
	begun := len(s.profiles)
	if s.fault == partial {
		begun = s.d.N(len(s.profiles) + 1)
	}
	s.advance()
	s.entries = make([]*entry, len(s.profiles))
	lag := s.d.Latency(4*time.Millisecond, s.plan.rates.lag)
	now := time.Now()
	for i, p := range s.profiles {
		switch {
		case i >= begun:
			s.errs[i] = errFailed
		case s.plan.rejected(p):
			s.errs[i] = engine.PermanentError("document_rejected", errors.New("sim: the store takes no such document"))
		default:
			s.entries[i], s.errs[i] = s.apply(p, lag)
		}
	}
	// A write that changes nothing waits for a majority too.
	due := now
	if n := len(s.pending); n > 0 {
		due = s.pending[n-1].due
	}
	s.mu.Unlock()
	if s.fault == reply {
		s.Note("store", "reply lost", int64(s.profiles[0].UserID))
		if s.d.Chance(500) {
			return // the worker waits in vain
		}
		copy(s.errs, slices.Repeat([]error{fmt.Errorf("%w: %w", engine.ErrUnknown, errReply)}, len(s.errs)))
		time.AfterFunc(s.d.Between(time.Millisecond, time.Second), func() { close(s.done) })
		return
	}
	time.AfterFunc(due.Sub(now)+s.d.Latency(2*time.Millisecond, 200*time.Millisecond), s.answer)
}

// answer says what a majority has.
func (s *swap) answer() {
	for i, e := range s.entries {
		if e != nil && s.fateOf(e) != durable {
			s.errs[i] = fmt.Errorf("%w: the write was rolled back", engine.ErrUnknown)
		}
	}
	close(s.done)
}
