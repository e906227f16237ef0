package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/sink/sinktest"
	"keyfold/sink/sqlfile"
	"keyfold/sink/sqlfile/crashtest"
)

func TestMain(m *testing.M) {
	crashtest.Child(writeUntilKilled)
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

// settings for vectors of n components.
func settings(n int) Settings {
	return Settings{Dimensions: n, History: profile.Mass, Model: "text-embedding-3-small"}
}

// openAt opens a file that is closed when the test ends.
func openAt(t testing.TB, path string, dimensions int) *File {
	t.Helper()
	f, err := Open(path, settings(dimensions))
	must.OK(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// openNew opens a new file. Its name holds what a URI would trip over.
func openNew(t testing.TB, dimensions int) *File {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "key fold?#%41.db"), dimensions)
}

func store(t *testing.T, f *File) sinktest.Store {
	return sinktest.Store{
		Profiles: f, Eraser: f, Dimensions: f.Settings().Dimensions,
		Delete: func(ctx context.Context, user int32) error {
			return f.Write(ctx, func(tx *sqlfile.Tx) error {
				_, err := tx.Exec("DELETE FROM user_embeddings WHERE user_id = ?", user)
				return err
			})
		},
		Reopen: func() sinktest.Store {
			must.OK(t, f.Close())
			return store(t, openAt(t, f.Path(), f.Settings().Dimensions))
		},
	}
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) sinktest.Store { return store(t, openNew(t, 8)) })
}

func TestRoundTripOfLongVectors(t *testing.T) {
	sinktest.RoundTrip(t, store(t, openNew(t, 1536)))
}
