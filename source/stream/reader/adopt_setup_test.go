package reader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// half is the share of one of two workers, whose locks are the broker's.
type half struct {
	Share
	number int
	locks  map[string]int
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
		return false, nil
	}
	h.locks[item] = h.number
	return true, nil
}

func (h *half) Unlock(item string) error { delete(h.locks, item); return nil }

// A setup makes streams of another number. Of two workers one hears of them before the other: where
// it is by less than both look for streams, each reads its half at once, and where it is by more, as
// the other one was frozen, after [adoptedFor].
//
// Promise(streams/cluster)
func TestStreamsOfASetupAreShared(t *testing.T) {
	for _, late := range []time.Duration{14 * time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("nothing is to be read"))
			locks := map[string]int{}
			var all []rabbit.Stream
			for p := range 12 {
				all = append(all, rabbit.Stream{Generation: 1 + p/4, Partition: p % 4})
			}
			var both [2]*sharing
			for i := range both {
				r := New(Config{Names: rabbit.DefaultNames()}, Ports{Log: sitetest.Quiet})
				both[i] = &sharing{reader: r, share: &half{number: i, locks: locks}, fail: func(error) {}, mine: map[rabbit.Stream]*assigned{}}
				both[i].know(all[:4])
			}
			poll := func(total time.Duration) {
				for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(time.Second) {
					for _, s := range both {
						s.looked = time.Now() // at what the test tells
						must.OK(t, s.poll(ended))
					}
				}
			}
			poll(time.Minute)
			both[0].know(all)
			poll(late)
			both[1].know(all)
			rest := time.Minute
			if late > 2*lookEvery {
				rest = adoptedFor
			}
			poll(rest)
			for i, s := range both {
				if len(s.mine) != len(all)/2 {
					t.Errorf("late by %v: worker %d reads %d of %d streams", late, i, len(s.mine), len(all))
				}
				s.reading.Wait()
			}
		})
	}
}
