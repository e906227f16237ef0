package processor

import (
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine/notify"
	"keyfold/engine/recent"
)

// What caps and limits hold back is known as a share of the newest decisions, whatever else held them
// too, and without what was sent all the same.
func TestShareThatCapsHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stats
		s.init()
		made := func(n int, o notify.Outcome, reasons ...string) {
			for range n {
				s.Decisions.add(&notify.Record{Outcome: o, Reasons: reasons})
			}
		}
		made(1000, notify.Now, notify.ReasonScoreHigh) // long before
		made(3, notify.Later, notify.ReasonCap5M)
		made(2, notify.Later, notify.ReasonLimit, notify.ReasonQuietHours)
		made(1, notify.Never, notify.ReasonDeferLimit, notify.ReasonCap24H)
		made(1, notify.Now, notify.ReasonDeferLimit, notify.ReasonCap1H)
		made(2, notify.Later, notify.ReasonQuietHours)
		made(1, notify.Never, notify.ReasonMuted)
		if records, held := s.Decisions.Capped(); records != 10 || held != 6 {
			t.Errorf("%d of %d", held, records)
		}
		time.Sleep(recent.Span + time.Second)
		if records, held := s.Decisions.Capped(); records != 0 || held != 0 {
			t.Errorf("later %d of %d", held, records)
		}
	})
}
