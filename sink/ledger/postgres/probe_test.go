package postgres

import (
	"errors"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
)

// A probe tells what a commit would meet, and leaves nothing that is counted.
func TestProbe(t *testing.T) {
	l := openNew(t)
	must.Fault(t, l.Probe(ctx), ReasonPartition, "postgres.Retention")
	_, err := l.EnsurePartitions(ctx, engine.Now(), 2) // of tomorrow too: a test may run at midnight
	must.OK(t, err)
	must.OK(t, errors.Join(l.Probe(ctx), l.Probe(ctx)))
	counts, err := l.Counts(ctx, ledger.Span{})
	users, err2 := l.Users(ctx)
	if must.OK(t, errors.Join(err, err2)); len(counts) != 0 || users != 0 {
		t.Errorf("a probe left %v, %d users", counts, users)
	}
	waiting, err := l.Undispatched(ctx, engine.Now()+day, 9)
	if must.OK(t, err); len(waiting) != 0 {
		t.Errorf("a probe left %v", waiting)
	}
}

// Promise(ledger/frozen)
func TestProbeNoticesFaults(t *testing.T) {
	for name, test := range map[string]struct {
		damage string
		reason string
		cure   string
	}{
		"function": {"ALTER FUNCTION notify_commit RENAME TO gone", ReasonNotSetUp, "postgres.Setup"},
		"table":    {"DROP TABLE notify_event_keys", ReasonNotSetUp, "postgres.Setup"},
		"records":  {"DROP TABLE notify_decisions", ReasonNotSetUp, "postgres.Setup"},
	} {
		t.Run(name, func(t *testing.T) {
			l := openNew(t)
			run(t, l, test.damage)
			must.Fault(t, l.probe(ctx, start), test.reason, test.cure)
		})
	}
	url := newURL(t)
	l := openAt(t, url+"&default_transaction_read_only=on")
	if err := l.probe(ctx, start); !errors.Is(err, engine.ErrAway) {
		t.Errorf("a server that takes no writes: %v, want away", err)
	}
}

func TestClock(t *testing.T) {
	l := openNew(t)
	before := engine.Now()
	now, err := l.Clock(ctx)
	if must.OK(t, err); now < before || now > engine.Now() { // the server's clock is this machine's
		t.Errorf("the clock is %v, and was %v before", now.Time(), before.Time())
	}
}
