package engine

import "time"

// Millis is an instant in Unix milliseconds, UTC: the precision BSON dates and
// DATETIME(3) columns keep, so that an event sorts the same before and after a
// store.
type Millis int64

// MillisOf returns t truncated (towards the past) to milliseconds.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Time returns the instant in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Days returns the fractional days from m to later.
func (m Millis) Days(later Millis) float64 {
	return float64(later-m) / float64(24*time.Hour/time.Millisecond)
}

// Now returns the processing time.
func Now() Millis { return MillisOf(time.Now()) }
