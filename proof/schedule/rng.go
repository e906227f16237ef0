package schedule

import (
	"math/bits"
	"time"
)

// RNG decides for one thing. It is a splitmix64 generator (Steele, Lea, Flood:
// "Fast splittable pseudorandom number generators", OOPSLA 2014): a state of one
// word, so that there can be one per decision.
type RNG struct{ state uint64 }

// Of returns the random numbers of a schedule for what the keys name.
func Of(number uint64, what string, keys ...uint64) RNG {
	d := RNG{number*0x9E3779B97F4A7C15 + 0x6b6579666f6c64}
	for i := range len(what) {
		d.state = Mix(d.state ^ uint64(what[i]))
	}
	for _, k := range keys {
		d.state = Mix(d.state + k*0xD1B54A32D192ED03)
	}
	return d
}

// Mix spreads a word over all of its bits.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Next returns the next 64 bits.
func (d *RNG) Next() uint64 {
	d.state += 0x9E3779B97F4A7C15
	return Mix(d.state)
}

// InstantOf is an instant as a key: what happens at one time is decided alike,
// whatever happened before.
func InstantOf(t time.Time) uint64 { return uint64(t.UnixNano()) }

// N returns a number from 0 to n-1.
func (d *RNG) N(n int) int {
	high, _ := bits.Mul64(d.Next(), uint64(n))
	return int(high)
}

// Chance is true in so many of a thousand cases.
func (d *RNG) Chance(perMille int) bool { return d.N(1000) < perMille }

// Between returns a duration with all its nanoseconds, so that hardly any two
// things happen in one instant.
func (d *RNG) Between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.N(int(most-least)+1))
}

// Latency is mostly short, and now and then long.
func (d *RNG) Latency(usual, seldom time.Duration) time.Duration {
	if d.Chance(30) {
		return d.Between(usual, seldom)
	}
	return d.Between(usual/10, usual)
}
