package sqlfile

import (
	"context"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"keyfold/internal/testserver/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// schema is that of the tests' files.
var schema = Schema{ApplicationID: 0x74657374, Migrations: []string{"CREATE TABLE kept (n INTEGER) STRICT"}}

// openAt opens a file that is closed when the test ends.
func openAt(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path, schema)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// openNew opens a new file. Its name holds what a URI would trip over.
func openNew(t testing.TB) *File {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "key fold?#%41.db"))
}
