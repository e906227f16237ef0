package sqlite

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sqlfile"
)

func TestOtherSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	must.OK(t, openAt(t, path, 8).Close())

	other := Settings{Dimensions: 16, History: profile.UnitMass, Model: "other"}
	_, err := Open(path, other)
	must.Fault(t, err, "store_settings", "Dimensions is 16", "profile.Config.Dimensions=8",
		"History is unit", "profile.Config.History=mass", "profile.Config.Model=text-embedding-3-small", "another data folder")

	other = settings(8)
	other.History = profile.UnitMass
	_, err = Open(path, other)
	must.Fault(t, err, "store_settings", "History=mass")
	if strings.Contains(err.Error(), "DIMENSIONS") {
		t.Errorf("%q names a setting that is the same", err)
	}
	_, err = Open(path, Settings{})
	must.Fault(t, err, "store_settings", "Dimensions", "History")

	must.OK(t, openAt(t, path, 8).Close()) // none of this changed the file
}

// TestOpenTogether opens a new file several times at once.
func TestOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			f, err := Open(path, settings(8))
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			p := &profile.Profile{UserID: int32(i), Version: 1, Vector: make([]float64, 8)}
			noErrors(t, f.Swap(ctx, []*profile.Profile{p}))
			if err := f.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	group.Wait()
	if n, err := openAt(t, path, 8).CountProfiles(ctx); err != nil || n != 4 {
		t.Errorf("%d profiles, %v, want 4", n, err)
	}
}

func TestReaderBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	f := openAt(t, path, 8)
	r, err := OpenReader(path)
	must.OK(t, err)
	if r.Settings() != settings(8) {
		t.Errorf("settings are %+v", r.Settings())
	}
	for user := range int32(20) {
		p := &profile.Profile{UserID: user, Version: 1, Vector: make([]float64, 8)}
		noErrors(t, f.Swap(ctx, []*profile.Profile{p}))
		if got, err := r.Load(ctx, []int32{user}); err != nil || got[0] == nil {
			t.Fatalf("the reader does not see user %d: %v", user, err)
		}
	}
	must.OK(t, r.Close())
	must.OK(t, f.Close())

	alone, err := OpenReader(path)
	must.OK(t, err)
	if n, err := alone.CountProfiles(ctx); err != nil || n != 20 {
		t.Errorf("%d profiles, %v, want 20", n, err)
	}
	must.OK(t, alone.Close())
}

func TestDamagedRow(t *testing.T) {
	f := openNew(t, 8)
	must.OK(t, f.Write(ctx, func(tx *sqlfile.Tx) error {
		_, err := tx.Exec(`INSERT INTO user_embeddings (user_id, version, embedding, dimension_count, applied)
			VALUES (1, 1, zeroblob(64), 8, x'00')`)
		return err
	}))
	_, err := f.Load(ctx, []int32{1})
	must.Fault(t, err, "store_corrupt", "user 1", "backup")
	if err := f.Write(ctx, func(tx *sqlfile.Tx) error {
		_, err := tx.Exec("UPDATE user_embeddings SET embedding = zeroblob(9)")
		return err
	}); engine.KindOf(err) != engine.Permanent {
		t.Errorf("a vector of another length than its row says: %v", err)
	}
}

// A file gets its second vectors when it is opened with them; afterwards their half-life
// holds for good.
func TestShortHalfLifeOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.db")
	must.OK(t, openAt(t, path, 8).Close())
	with := settings(8)
	with.ShortHalfLife = time.Minute
	refused := with
	refused.Model = "other"
	_, err := Open(path, refused)
	must.Fault(t, err, "store_settings", "profile.Config.Model=text-embedding-3-small")
	must.OK(t, openAt(t, path, 8).Close()) // it changed nothing
	for range 2 {
		f, err := Open(path, with)
		must.OK(t, err)
		if got := f.Settings().ShortHalfLife; got != time.Minute {
			t.Errorf("the half-life is %v", got)
		}
		must.OK(t, f.Close())
	}
	for _, other := range []time.Duration{0, time.Hour} {
		with.ShortHalfLife = other
		_, err := Open(path, with)
		must.Fault(t, err, "store_settings", "profile.Config.ShortHalfLife=1m0s")
	}
}
