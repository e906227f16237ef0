package consume

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// partitioned is a virtual host whose users are spread over so many queues.
func partitioned(t testing.TB, b *rabbittest.Broker, partitions int) *site {
	t.Helper()
	s := &site{sitetest.New(t, b)}
	s.partition(partitions)
	return s
}

// modern returns a broker that spreads partitions over workers.
func modern(t *testing.T) *rabbittest.Broker {
	t.Parallel()
	return rabbittest.SharedVersion(t, 4)
}

// member is a worker: what it holds, it settles when its windows are closed.
type member struct {
	*runner
	name  string
	fleet *fleet

	mu   sync.Mutex
	held []profile.Delivery
	open bool // settles at once
	deaf bool // does not close its windows
}

// fleet is several workers, and which of them has which user's events.
type fleet struct {
	*site
	mu     sync.Mutex
	holder map[int32]*member // under mu: of a user's unsettled events
	held   map[int32]int     // under mu: how many
	split  int               // under mu: deliveries to a second worker while the first held some
	seen   map[string]int    // under mu: deliveries of an event
}

func newFleet(s *site) *fleet {
	return &fleet{site: s, holder: map[int32]*member{}, held: map[int32]int{}, seen: map[string]int{}}
}

func (f *fleet) join(name string, change func(*Config)) *member {
	f.T.Helper()
	m := &member{name: name, fleet: f, open: true}
	config := f.config()
	config.Identity.Role = name
	config.Partitions = &Partitions{}
	config.Timing.Poll = 50 * time.Millisecond
	if change != nil {
		change(&config)
	}
	c, err := New(config, Ports{
		DeadLetters: DeadLetterQueue(f.Publisher(sitetest.Quick), f.Names, "test-host"),
		Retries:     InProcess{}, Log: sitetest.Quiet,
		Layout: f.Publisher(sitetest.Quick), CloseWindows: m.closeWindows,
	})
	must.OK(f.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	m.runner = &runner{Consumer: c, t: f.T, stop: cancel, done: make(chan error, 1)}
	go func() { m.done <- c.Run(ctx, Events(m.deliver)) }()
	f.T.Cleanup(func() { m.settle(func(int) bool { return true }); m.end(10 * time.Second) })
	return m
}

func (m *member) deliver(_ context.Context, deliveries []profile.Delivery) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.note(m, deliveries)
	m.held = append(m.held, deliveries...)
	if m.open {
		m.settleHeld(func(int) bool { return true })
	}
	return nil
}

// hold has the member keep what comes until its windows are closed.
func (m *member) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open = false
}

func (m *member) closeWindows(of func(int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.deaf {
		m.settleHeld(of)
	}
}

func (m *member) settle(of func(int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleHeld(of)
}

func (m *member) settleHeld(of func(int) bool) {
	m.held = slices.DeleteFunc(m.held, func(d profile.Delivery) bool {
		if !of(engine.SlotOf(d.Event.UserID)) {
			return false
		}
		m.fleet.forget(d.Event.UserID)
		d.Settler.Settle(folded)
		return true
	})
}

func (f *fleet) note(m *member, deliveries []profile.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range deliveries {
		user := d.Event.UserID
		f.seen[d.Event.MessageID]++
		if f.held[user] > 0 && f.holder[user] != m {
			f.split++
		}
		f.holder[user] = m
		f.held[user]++
	}
}

func (f *fleet) forget(user int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[user]--
}

// count returns how many different events came, how often one came again, and how often
// a user's came to a second worker while a first held some.
func (f *fleet) count() (events, again, split int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.seen {
		again += n - 1
	}
	return len(f.seen), again, f.split
}

// owned waits until the members own so many partitions, in order of size.
func (f *fleet) owned(members []*member, want ...int64) {
	f.T.Helper()
	sitetest.Eventually(f.T, fmt.Sprintf("partitions owned %v", want), func() bool {
		var all []int64
		for _, m := range members {
			all = append(all, m.Stats.Partitions.Owned.Load())
		}
		slices.Sort(all)
		return slices.Equal(all, want)
	})
}

// flow publishes events until stop is called, which returns how many.
func (f *fleet) flow() (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var n atomic.Int64
	done := make(chan struct{})
	p := f.Publisher(sitetest.Quick)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var some []rabbit.Message
			for range 20 {
				b := sitetest.Body(int(n.Add(1)) - 1)
				e := sitetest.Event(f.T, b)
				some = append(some, f.Names.SlotMessage(b, &e))
			}
			for _, err := range p.Publish(sitetest.Within(f.T, sitetest.Ample), some) {
				if err != nil {
					f.T.Error(err)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	f.T.Cleanup(cancel)
	return func() int {
		cancel()
		<-done
		return int(n.Load())
	}
}

// Three workers share eight partitions as 3, 3 and 2. One that is killed leaves its own to
// the others, and gets as many again when it is back. Every event comes; where no worker
// is killed, none comes twice, and no user's events are with two workers at once, also
// while windows are open.
func TestPartitionsAreSpread(t *testing.T) {
	f := newFleet(partitioned(t, modern(t), 8))
	a := f.join("a", nil)
	f.owned([]*member{a}, 8)
	a.hold()
	stop := f.flow()
	b := f.join("b", nil)
	b.hold()
	f.owned([]*member{a, b}, 4, 4)
	c := f.join("c", nil)
	c.hold()
	f.owned([]*member{a, b, c}, 2, 3, 3)
	sitetest.Eventually(t, "each has events of its own", func() bool {
		return a.share() > 0 && b.share() > 0 && c.share() > 0
	})
	for _, m := range []*member{a, b, c} {
		m.mu.Lock()
		m.open = true
		m.settleHeld(func(int) bool { return true })
		m.mu.Unlock()
	}
	n := stop()
	sitetest.Eventually(t, "every event", func() bool { events, _, _ := f.count(); return events == n })
	if _, again, split := f.count(); again != 0 || split != 0 {
		t.Errorf("in %d events %d came again, %d to a second worker at once", n, again, split)
	}
	f.kill(a)
	f.owned([]*member{b, c}, 4, 4)
	f.Publish(f.Slotted(600)...)
	again := f.join("a", nil)
	f.owned([]*member{again, b, c}, 2, 3, 3)
}

// share is what a member holds.
func (m *member) share() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held)
}

// kill ends a worker as a kill does: by its socket.
func (f *fleet) kill(m *member) {
	m.stop()
	<-m.done
	m.done <- nil
	if m.last != nil {
		m.last.socket.Abort()
	}
}
