package sim

import (
	"math/bits"
	"time"
)

// rng decides for one thing. It is a splitmix64 generator (Steele, Lea, Flood:
// "Fast splittable pseudorandom number generators", OOPSLA 2014): a state of one
// word, so that there can be one per decision.
type rng struct{ state uint64 }

// rngOf returns the random numbers of a schedule for what the keys name.
func rngOf(number uint64, what string, keys ...uint64) rng {
	d := rng{number*0x9E3779B97F4A7C15 + 0x6b6579666f6c64}
	for i := range len(what) {
		d.state = mix(d.state ^ uint64(what[i]))
	}
	for _, k := range keys {
		d.state = mix(d.state + k*0xD1B54A32D192ED03)
	}
	return d
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (d *rng) next() uint64 {
	d.state += 0x9E3779B97F4A7C15
	return mix(d.state)
}

// instantOf is an instant as a key: what happens at one time is decided alike,
// whatever happened before.
func instantOf(t time.Time) uint64 { return uint64(t.UnixNano()) }

// n returns a number from 0 to n-1.
func (d *rng) n(n int) int {
	high, _ := bits.Mul64(d.next(), uint64(n))
	return int(high)
}

// chance is true in so many of a thousand cases.
func (d *rng) chance(perMille int) bool { return d.n(1000) < perMille }

// between returns a duration with all its nanoseconds, so that hardly any two
// things happen in one instant.
func (d *rng) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.n(int(most-least)+1))
}

// latency is mostly short, and now and then long.
func (d *rng) latency(usual, seldom time.Duration) time.Duration {
	if d.chance(30) {
		return d.between(usual, seldom)
	}
	return d.between(usual/10, usual)
}
