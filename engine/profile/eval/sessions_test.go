package eval_test

import (
	"slices"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile/eval"
)

// A pause longer than the given one ends a session, one millisecond less does not; a thing is
// in it once, and what is no thing keeps it going.
func TestSessions(t *testing.T) {
	t.Parallel()
	var got [][]int32
	s := eval.Sessions{Pause: 1000, Each: func(session []int32) { got = append(got, slices.Clone(session)) }}
	add := func(at engine.Millis, thing int32) { s.Add(at, thing) }
	add(5000, 1)
	add(6000, 2)
	add(6000, 1)
	add(7001, 3)
	add(8001, -1)
	add(9001, 4)
	s.End()
	add(9001, 5)
	s.End()
	s.End()
	add(100, -1)
	s.End()
	want := [][]int32{{1, 2}, {3, 4}, {5}}
	if !slices.EqualFunc(got, want, func(a, b []int32) bool { return slices.Equal(a, b) }) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A crawler's session of thousands has the first 200 things, and takes no time.
func TestSessionOfThousands(t *testing.T) {
	t.Parallel()
	var sizes []int
	s := eval.Sessions{Pause: eval.SessionPause, Each: func(session []int32) { sizes = append(sizes, len(session)) }}
	began := time.Now()
	for i := range 1_000_000 {
		s.Add(engine.Millis(i), int32(i%50_000))
	}
	s.End()
	if took := time.Since(began); !slices.Equal(sizes, []int{eval.SessionItems}) || took > 10*time.Second {
		t.Errorf("sessions of %v in %v", sizes, took)
	}
}
