package notifications

import (
	"math/rand/v2"
	"time"

	"keyfold/engine"
)

// chance draws what happens.
type chance struct{ *rand.Rand }

// of reports true in percent of 100 cases.
func (c chance) of(percent int) bool { return c.IntN(100) < percent }

// share reports true in a share of cases.
func (c chance) share(s float64) bool { return c.Float64() < s }

// between draws a duration.
func (c chance) between(from, to time.Duration) engine.Millis {
	return millis(from + time.Duration(c.Int64N(int64(to-from))))
}

// soon draws a duration of which short ones are far more frequent: each doubling of
// from, up to to, is as likely as another.
func (c chance) soon(from, to time.Duration) engine.Millis {
	doublings := 0
	for d := from; d < to; d *= 2 {
		doublings++
	}
	low := from << c.IntN(max(1, doublings))
	return c.between(low, min(2*low, to+1))
}

func pick[T any](c chance, from []T) T { return from[c.IntN(len(from))] }
