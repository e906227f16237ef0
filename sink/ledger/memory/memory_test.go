package memory_test

import (
	"testing"

	"github.com/google/uuid"

	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
)

// Promise(notify/one-sweeps, ledger/contention, ledger/erasure, ledger/dropped-records)
// Promise(ledger/reports, ledger/expired-report)
func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledgertest.Store {
		l := memory.New()
		return ledgertest.Store{Ledger: l, Drop: func(_ *testing.T, decision uuid.UUID) { l.Drop(decision) }}
	})
}
