package memory_test

import (
	"testing"

	"keyfold/sink/ledger/memory"
	"keyfold/sink/ledgertest"
)

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledgertest.Store { return ledgertest.Store{Ledger: memory.New()} })
}
