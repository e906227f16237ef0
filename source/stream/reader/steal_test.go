package reader

import (
	"context"
	"errors"
	"testing"
	"time"

	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// half is the share of one of two workers, whose locks are the broker's.
type half struct {
	Share
	number  int
	locks   map[string]int
	refused int
}

func (h *half) Poll(items int) ([]bool, int, error) {
	mine := make([]bool, items)
	for i := range mine { // as owners has it for two
		mine[i] = (i >= items/2) == (h.number == 1)
	}
	return mine, 2, nil
}
func (h *half) Settled() bool { return true }
func (h *half) Lock(item string) (bool, error) {
	if owner, held := h.locks[item]; held && owner != h.number {
		h.refused++
		return false, nil
	}
	h.locks[item] = h.number
	return true, nil
}
func (h *half) Unlock(item string) error { delete(h.locks, item); return nil }

// A setup makes streams of another number, and of two workers one hears of them some seconds
// before the other: each reads its half all the same.
func TestReviewStreamsOfASetupAreShared(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("nothing is to be read"))
	locks := map[string]int{}
	var both [2]*sharing
	var shares [2]*half
	streams := func(generation, n int) (all []rabbit.Stream) {
		for p := range n {
			all = append(all, rabbit.Stream{Generation: generation, Partition: p})
		}
		return all
	}
	old := streams(1, 4)
	for i := range both {
		shares[i] = &half{number: i, locks: locks}
		r := New(Config{Names: rabbit.DefaultNames()}, Ports{Log: sitetest.Quiet})
		both[i] = &sharing{reader: r, share: shares[i], fail: func(error) {}, mine: map[rabbit.Stream]*assigned{}, streams: old, looked: time.Now().Add(time.Hour)}
	}
	poll := func(n int) {
		for range n {
			for _, s := range both {
				if err := s.poll(ended); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	poll(100)
	t.Logf("before: %d and %d streams", len(both[0].mine), len(both[1].mine))
	all := append(streams(1, 4), streams(2, 8)...)
	both[0].streams = all
	poll(14) // of a second each; a worker looks for streams every 15 s
	both[1].streams = all
	poll(5)
	shares[1].refused = 0
	poll(600)
	for i, s := range both {
		if len(s.mine) != 6 {
			t.Errorf("ten minutes later worker %d reads %d of 12 streams", i, len(s.mine))
		}
	}
	t.Logf("locks that the second worker was refused in these: %d", shares[1].refused)
	for _, s := range both {
		s.reading.Wait()
	}
}

// How many cases of offset and phase end unequal.
func TestReviewHowOften(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("nothing is to be read"))
	unequal, idle, n := 0, 0, 0
	for _, first := range []int{0, 1} {
		for offset := 1; offset <= 15; offset++ {
			for phase := range 10 {
				locks := map[string]int{}
				var both [2]*sharing
				var old, all []rabbit.Stream
				for p := range 4 {
					old = append(old, rabbit.Stream{Generation: 1, Partition: p})
				}
				all = append(all, old...)
				for p := range 8 {
					all = append(all, rabbit.Stream{Generation: 2, Partition: p})
				}
				for i := range both {
					r := New(Config{Names: rabbit.DefaultNames()}, Ports{Log: sitetest.Quiet})
					both[i] = &sharing{reader: r, share: &half{number: i, locks: locks}, fail: func(error) {}, mine: map[rabbit.Stream]*assigned{}, streams: old, looked: time.Now().Add(time.Hour)}
				}
				poll := func(n int) {
					for range n {
						for _, s := range both {
							if err := s.poll(ended); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
				poll(100 + phase)
				both[first].streams = all
				poll(offset)
				both[1-first].streams = all
				poll(200)
				n++
				a, b := len(both[0].mine), len(both[1].mine)
				if a != b {
					unequal++
				}
				if a == 0 || b == 0 {
					idle++
				}
				for _, s := range both {
					s.reading.Wait()
				}
			}
		}
	}
	t.Logf("of %d: %d end unequal, %d with one idle", n, unequal, idle)
}
