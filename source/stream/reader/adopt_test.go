package reader

import (
	"context"
	"errors"
	"testing"

	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// lost is a share of which the workers that should read some streams were lost with their node.
type lost struct {
	Share
	settled bool
	free    map[string]bool
	tries   int
}

func (l *lost) Settled() bool { return l.settled }
func (l *lost) Lock(item string) (bool, error) {
	l.tries++
	return l.free[item], nil
}

// Streams whose worker is counted and reads none are adopted, and others are left to their workers.
//
// Promise(streams/cluster)
func TestStreamsOfALostNodeAreAdopted(t *testing.T) {
	t.Parallel()
	names := rabbit.DefaultNames()
	r := New(Config{Names: names}, Ports{Log: sitetest.Quiet})
	share := &lost{free: map[string]bool{}}
	s := sharing{reader: r, share: share, fail: func(error) {}, mine: map[rabbit.Stream]*assigned{}}
	for p := range 4 {
		s.streams = append(s.streams, rabbit.Stream{Generation: 1, Partition: p})
	}
	mine := []bool{true, false, false, false}
	s.mine[s.streams[0]] = &assigned{}
	share.free[names.StreamQueue(s.streams[1])], share.free[names.StreamQueue(s.streams[3])] = true, true
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("nothing is to be read"))
	poll := func(n int) {
		for range n {
			if err := s.adopt(ended, mine); err != nil {
				t.Fatal(err)
			}
		}
		s.reading.Wait()
	}
	poll(5 * pollsToAdopt)
	if share.tries != 0 {
		t.Errorf("%d tries while workers come and go", share.tries)
	}
	share.settled = true
	poll(5 * pollsToAdopt)
	for p, want := range []bool{false, true, false, true} {
		if a := s.mine[s.streams[p]]; (a != nil && !a.adopted.IsZero()) != want {
			t.Errorf("stream %d: adopted is %v", p, !want)
		}
	}
	if most := 2 + 5; share.tries > most { // one for each, and one of pollsToAdopt polls for the other's
		t.Errorf("%d tries, want %d at most", share.tries, most)
	}
}
