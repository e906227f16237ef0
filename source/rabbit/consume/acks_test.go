package consume

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
)

// ledger is a broker's view of one channel: what is open, and which frames it
// would close the channel for.
type ledger struct {
	open    map[uint64]bool // delivered and not acknowledged
	settled map[uint64]bool // may be acknowledged
	faults  []string
}

func (l *ledger) Ack(tag uint64, multiple bool) error {
	if !l.open[tag] {
		l.faults = append(l.faults, fmt.Sprintf("unknown delivery tag %d", tag))
	}
	for t := range l.open {
		if t != tag && (!multiple || t > tag) {
			continue
		}
		if !l.settled[t] {
			l.faults = append(l.faults, fmt.Sprintf("tag %d is not settled", t))
		}
		delete(l.open, t)
	}
	return nil
}

func newAcks(l acknowledger) *acks {
	return &acks{
		channel: l, cork: func() {}, uncork: func() {}, sent: func(int, int) {}, accounting: &Accounting{},
		interval: time.Hour, maxAckDelay: time.Hour, sendAt: 1 << 30, maxOutOfOrder: 8,
		some: make(chan struct{}, 1), many: make(chan struct{}, 1),
	}
}

// Tags that wait for lower ones take up an eighth of the prefetch at most, also where that
// changes.
func TestAcksFollowThePrefetch(t *testing.T) {
	l := &ledger{open: map[uint64]bool{}, settled: map[uint64]bool{}}
	a := newAcks(l)
	a.limit(80)
	for _, tag := range tagsUpTo(11) {
		l.open[tag] = true
		if l.settled[tag] = tag > 1; tag > 1 {
			a.settle(tag, settlement{outcome: engine.Folded})
			a.send(time.Now(), false)
		}
	}
	if len(l.open) != 11 {
		t.Errorf("%d are open, want all 11: ten may wait for the first", len(l.open))
	}
	a.limit(8)
	if a.send(time.Now(), false); len(l.open) != 1 {
		t.Errorf("with a tenth of the prefetch %d are open, want the first", len(l.open))
	}
}

// Whatever the order, no frame covers an open tag, none names a tag twice, and
// in the end everything settled is acknowledged.
//
// Promise(rabbitmq/acknowledgements): One goroutine acknowledges, many at once only where every lower
// one is settled.
func TestAcksCoverWhatIsSettled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "tags")
		order := rapid.Permutation(tagsUpTo(n)).Draw(t, "order")
		left := rapid.IntRange(0, n).Draw(t, "never settled")
		l := &ledger{open: map[uint64]bool{}, settled: map[uint64]bool{}}
		for i := range n {
			l.open[uint64(i+1)] = true
		}
		a := newAcks(l)
		now := time.Now()
		for _, tag := range order[:n-left] {
			l.settled[tag] = true
			a.settle(tag, settlement{outcome: engine.Folded})
			if rapid.Bool().Draw(t, "again") {
				a.settle(tag, settlement{outcome: engine.Folded})
			}
			switch rapid.IntRange(0, 3).Draw(t, "send") {
			case 0:
				a.send(now, false)
			case 1:
				now = now.Add(2 * time.Hour)
				a.send(now, false)
			}
		}
		a.send(now, true)
		if len(l.faults) > 0 {
			t.Fatal(l.faults)
		}
		if len(l.open) != left {
			t.Fatalf("%d tags are open, %d were not settled", len(l.open), left)
		}
	})
}

func tagsUpTo(n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	return all
}

// Promise(rabbitmq/acknowledgements)
func TestAcksWaitForLowerTags(t *testing.T) {
	l := &ledger{open: map[uint64]bool{}, settled: map[uint64]bool{}}
	for i := range uint64(100) {
		l.open[i+1], l.settled[i+1] = true, true
	}
	frames := 0
	a := newAcks(l)
	a.sent = func(_, n int) { frames += n }
	start := time.Now()
	for tag := uint64(2); tag <= 9; tag++ {
		a.settle(tag, settlement{outcome: engine.Folded})
	}
	a.send(start, false)
	a.send(start.Add(a.maxAckDelay-1), false)
	if frames != 0 {
		t.Errorf("%d frames went out for tags above an open one", frames)
	}
	a.settle(1, settlement{outcome: engine.Folded})
	a.send(start.Add(a.maxAckDelay-1), false)
	if frames != 1 || len(l.open) != 91 {
		t.Errorf("%d frames for tags 1 to 9, %d open", frames, len(l.open))
	}
	a.settle(11, settlement{outcome: engine.Folded})
	a.send(start, false)
	a.send(start.Add(a.maxAckDelay), false)
	if frames != 2 || l.open[11] {
		t.Error("a tag waited for longer than the lag")
	}
	for tag := uint64(20); tag < 29; tag++ {
		a.settle(tag, settlement{outcome: engine.Folded})
	}
	a.send(start, false)
	if frames != 2+9 {
		t.Errorf("more tags waited than are spared: %d frames", frames)
	}
}

// Settling from many goroutines while the sender runs, with the race detector.
//
// Promise(rabbitmq/acknowledgements)
func TestAcksRun(t *testing.T) {
	const n = 20_000
	l := &ledger{open: map[uint64]bool{}, settled: map[uint64]bool{}}
	for _, tag := range tagsUpTo(n) {
		l.settled[tag] = true
	}
	counting := &counter{}
	a := newAcks(counting)
	a.interval, a.maxAckDelay, a.sendAt, a.maxOutOfOrder = time.Millisecond, 2*time.Millisecond, 100, 1000
	acked := 0
	a.sent = func(messages, _ int) { acked += messages }
	a.start()
	tags := tagsUpTo(n)
	rand.Shuffle(n, func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	var settling sync.WaitGroup
	for i := range 8 {
		settling.Go(func() {
			for _, tag := range tags[i*n/8 : (i+1)*n/8] {
				if !a.settle(tag, settlement{outcome: engine.Folded}) {
					t.Error("refused")
				}
			}
		})
	}
	settling.Wait()
	a.close()
	if acked != n || a.settle(1, settlement{outcome: engine.Folded}) {
		t.Errorf("%d of %d acknowledged", acked, n)
	}
}

type counter struct{ frames int }

func (c *counter) Ack(uint64, bool) error { c.frames++; return nil }

func TestShares(t *testing.T) {
	for _, prefetch := range []int{1, 511, 512, 1000, 1025, 8192, MaxPrefetch} {
		sum := 0
		all := splitPrefetch(prefetch, 2047)
		for _, n := range all {
			sum += n
			if n < 1 {
				t.Errorf("prefetch %d: a share of %d, which means no limit", prefetch, n)
			}
		}
		if sum != prefetch || len(all) > maxChannels {
			t.Errorf("prefetch %d: shares %v", prefetch, all)
		}
	}
	if all := splitPrefetch(8192, 3); len(all) != 3 {
		t.Errorf("%d channels where 3 are allowed", len(all))
	}
}
