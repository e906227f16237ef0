package sqlite

import (
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
	"keyfold/sink/ledgertest"
)

// What waits is counted by type and by the time it is due, with a bound the next ones.
func TestDeferralsAreCounted(t *testing.T) {
	l := openNew(t)
	const second, at = engine.Millis(1000), engine.Millis(1_780_000_000_000)
	for i, d := range []struct {
		kind notify.EventType
		due  engine.Millis
	}{
		{notify.Update, at}, {notify.Update, at + 1}, {notify.Promo, at + 61*second}, {notify.Promo, at + 62*second}, {notify.Promo, at + 3_700*second}, {notify.Security, at + 90_000*second},
	} {
		user := string(rune('a' + i))
		made := ledgertest.Decide(ledgertest.Event(user, d.kind, at), 1, 0, notify.Later, at)
		made.Record.DeferUntil = d.due
		must.OK(t, l.Commit(ctx, []notify.Change{{User: user, State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{made}}}, nil)[0])
	}
	_, err := l.Claim(ctx, at, at+60*second, 1)
	must.OK(t, err)
	now := at + 1
	counts, err := l.CountDeferrals(ctx, now, 0)
	must.OK(t, err)
	want := []ledger.DeferralCount{
		{Type: notify.Promo, Hour: 2, Day: 1, Oldest: at + 61*second}, {Type: notify.Security, Later: 1, Oldest: at + 90_000*second}, {Type: notify.Update, Due: 1, Claimed: 1, Oldest: at},
	}
	for i := range want {
		if len(counts) != len(want) || counts[i] != want[i] {
			t.Fatalf("counts are\n%+v, want\n%+v", counts, want)
		}
	}
	if counts, err = l.CountDeferrals(ctx, now, 2); err != nil || len(counts) != 1 || counts[0].Total() != 2 {
		t.Errorf("with a bound of two: %+v, %v", counts, err)
	}
}
