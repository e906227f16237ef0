package ledgertest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// testLeases holds a ledger that several processes share against [notify.Leases].
func testLeases(t *testing.T, s Store) {
	leases, ok := s.Ledger.(notify.Leases)
	if !ok {
		t.Skip("one process at a time uses this ledger")
	}
	a, b := id(start), id(start)
	lease := func(want bool, name string, holder uuid.UUID, now, until engine.Millis) {
		t.Helper()
		got, err := leases.Lease(ctx, name, holder, now, until)
		must(t, err)
		equal(t, "leased", got, want)
	}
	lease(true, "sweep", a, start, start+minute)
	lease(true, "other", b, start, start+minute)
	lease(false, "sweep", b, start+minute-1, start+9*minute)
	lease(true, "sweep", a, start+1, start+2*minute) // the holder's own
	lease(false, "sweep", b, start+minute, start+9*minute)
	lease(true, "sweep", b, start+2*minute, start+3*minute)
	lease(false, "sweep", a, start+2*minute, start+3*minute)
	lease(true, "sweep", b, start+2*minute, start) // given back
	lease(true, "sweep", a, start+2*minute, start+3*minute)

	var group sync.WaitGroup
	var won atomic.Int64
	for range 8 {
		group.Go(func() {
			got, err := leases.Lease(ctx, "race", uuid.New(), start, start+1)
			if err != nil {
				t.Error(err)
			}
			if got {
				won.Add(1)
			}
		})
	}
	group.Wait()
	equal(t, "winners", won.Load(), 1)
}
