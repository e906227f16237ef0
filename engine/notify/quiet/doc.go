// Package quiet knows a user's local time: zones, quiet hours, mornings and slots.
//
// All of it is defined by the wall clock that a zone shows at an instant, so that
// the gaps and repeats of daylight saving need no rule of their own. In a gap the
// clock jumps over some times of day: a span that begins or ends there begins or
// ends with the jump. Where the clock is set back it shows some times twice, and
// both are quiet, or both are not.
//
// Between two changes of a zone's offset the wall clock is linear, so an end or a
// next time of day is a sum there; where it lies behind the change, the search goes
// on from the change. Nothing here asks which instant a local time is
// ([time.Date]): in a gap the answer is unspecified, and in a repeat it is one of
// two.
package quiet
