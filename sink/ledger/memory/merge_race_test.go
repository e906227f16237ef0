package memory

import (
	"context"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/ledger"
)

// between merges other users after the first reading.
type between struct {
	*Ledger
	loads int
}

func (b *between) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	all, err := b.Ledger.Load(ctx, asks)
	if b.loads++; b.loads == 1 && err == nil {
		_, err = ledger.MergeUsers(ctx, b.Ledger, "c", "d", 2)
	}
	return all, err
}

// A user who becomes an alias while another one is merged into an alias of it gets nothing.
func TestAMergeFollowsAUserWhoIsMergedMeanwhile(t *testing.T) {
	l := New()
	if _, err := ledger.MergeUsers(t.Context(), l, "b", "c", 1); err != nil {
		t.Fatal(err)
	}
	done, err := ledger.MergeUsers(t.Context(), &between{Ledger: l}, "a", "b", 3)
	if err != nil || done.Into != "d" {
		t.Errorf("%+v, %v", done, err)
	}
	if ids, err := l.Aliases(t.Context(), "d"); err != nil || len(ids) != 3 {
		t.Errorf("aliases of d: %v, %v", ids, err)
	}
}

// A version of an alias's preferences names none of the person's.
func TestAMergeLeavesNoVersionOfTheAlias(t *testing.T) {
	l := New()
	for range 2 {
		must.OK(t, l.SetPreferences(t.Context(), "alias", notify.Preferences{Paused: true}))
	}
	must.OK(t, l.SetPreferences(t.Context(), "into", notify.Preferences{}))
	if _, err := ledger.MergeUsers(t.Context(), l, "alias", "into", 1); err != nil {
		t.Fatal(err)
	}
	if p, err := l.Preferences(t.Context(), "into"); err != nil || p.Version <= 2 {
		t.Errorf("version %d, %v", p.Version, err)
	}
}
