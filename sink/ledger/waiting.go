package ledger

import (
	"errors"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// ErrTooMany is of a count with a bound that took too long all the same.
var ErrTooMany = errors.New("counting takes longer than 2 s")

// DeferralCount counts the deferrals of one type of events.
type DeferralCount struct {
	Type    notify.EventType
	Due     int64         // their time has come, and no worker has claimed them
	Claimed int64         // a worker has a lease of them
	Minute  int64         // due within a minute
	Hour    int64         // due after that, within an hour
	Day     int64         // due after that, within a day
	Later   int64         // due after that
	Oldest  engine.Millis // the earliest time of all; 0: there is none
}

// Total is how many are counted.
func (c *DeferralCount) Total() int64 { return c.Due + c.Claimed + c.Minute + c.Hour + c.Day + c.Later }
