package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"keyfold/internal/testserver/must"
	"keyfold/sink/ledgertest"
	"keyfold/sink/sqlfile/crashtest"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	crashtest.Child(commitUntilKilled)
	goleak.VerifyTestMain(m)
}

// openAt opens a file that is closed when the test ends.
func openAt(t testing.TB, path string) *Ledger {
	t.Helper()
	l, err := Open(path)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func openNew(t testing.TB) *Ledger {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "notify.db"))
}

// Promise(notify/one-sweeps, ledger/contention, ledger/erasure, ledger/dropped-records)
// Promise(ledger/reports, ledger/expired-report)
func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Store {
		l := openNew(t)
		return ledgertest.Store{Ledger: l, Reopen: func() ledgertest.Store {
			must.OK(t, l.Close())
			return ledgertest.Store{Ledger: openAt(t, l.Path())}
		}, Drop: func(t *testing.T, decision uuid.UUID) {
			run(t, l, fmt.Sprintf("DELETE FROM notify_decisions WHERE decision_id = x'%x'", decision[:]))
		}}
	})
}
