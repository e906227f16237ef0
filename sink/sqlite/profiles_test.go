package sqlite

import (
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sqlfile"
)

func TestAllProfiles(t *testing.T) {
	f := openNew(t, 4)
	const users = 3*pageRows + 1
	var batch []*profile.Profile
	for user := int32(users); user > 0; user-- {
		p := &profile.Profile{UserID: user, Version: 1, Vector: make([]float64, 4), EventCount: 1}
		if user == 2 || user == 7 {
			p.EventCount = 9
		}
		batch = append(batch, p)
	}
	noErrors(t, f.Swap(ctx, batch))
	must.OK(t, f.Forget(ctx, 7, 42))
	var seen []int32
	for p, err := range f.AllProfiles(ctx) {
		must.OK(t, err)
		if p.Erased() != (p.UserID == 7) {
			t.Errorf("user %d: erased is %t", p.UserID, p.Erased())
		}
		if seen = append(seen, p.UserID); len(seen) == pageRows/2 {
			// The loop's body may write and read.
			must.OK(t, f.Forget(ctx, 9, 43))
		}
	}
	if len(seen) != users || !slices.IsSorted(seen) {
		t.Errorf("%d users were listed, want %d in order", len(seen), users)
	}
	for range f.AllProfiles(ctx) {
		break
	}
	if user, err := f.BusiestUser(ctx); err != nil || user != 2 {
		t.Errorf("the busiest user is %d, %v, want 2", user, err)
	}
	if n, err := f.CountProfiles(ctx); err != nil || n != users-2 {
		t.Errorf("count is %d, %v, want %d", n, err, users-2)
	}
}

// TestRejectedDocument has SQLite itself refuse one document of a Swap.
//
// Promise(event/rejected-profile)
func TestRejectedDocument(t *testing.T) {
	f := openNew(t, 4)
	must.OK(t, f.Write(ctx, func(tx *sqlfile.Tx) error {
		_, err := tx.Exec(`CREATE TRIGGER no_second BEFORE INSERT ON user_embeddings WHEN new.user_id = 2
			BEGIN SELECT RAISE(ABORT, 'no second user'); END`)
		return err
	}))
	var batch []*profile.Profile
	for user := int32(1); user <= 3; user++ {
		batch = append(batch, &profile.Profile{UserID: user, Version: 1, Vector: make([]float64, 4)})
	}
	errs := f.Swap(ctx, batch)
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("beside a rejected document: %v", errs)
	}
	if engine.KindOf(errs[1]) != engine.Permanent || engine.ReasonOf(errs[1]) != "document_rejected" {
		t.Errorf("a rejected document: %v, want a permanent error", errs[1])
	}
	if stored, err := f.Load(ctx, []int32{1, 2, 3}); err != nil || stored[0] == nil || stored[1] != nil || stored[2] == nil {
		t.Errorf("stored are %v, %v", stored, err)
	}
}
