package app

import (
	"fmt"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/sink/ledger/postgres"
)

// The cure names the setting whose address does not answer.
func TestTheLedgersOwnerUnreached(t *testing.T) {
	away := func(*postgres.Ledger) error { return fmt.Errorf("%w: it is down", engine.ErrAway) }
	const url = "postgres://u:p@127.0.0.1:1/d"
	for setting, n := range map[string]Notify{
		"NOTIFY_ADMIN_URL":    {Ledger: url, Owner: url},
		"NOTIFY_DATABASE_URL": {Ledger: url},
	} {
		if err := (&App{Notify: n}).WithLedgerOwner(away); err == nil || !strings.Contains(err.Error(), "that "+setting+" is right") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
