package inbox

import (
	"context"
	"database/sql"
	"log/slog"

	"keyfold/engine/profile"
)

// Tx is the part of a transaction that is used here.
type Tx interface {
	Exec(query string, args ...any) (sql.Result, error)
	Query(query string, args ...any) (*sql.Rows, error)
}

// Writer is the one writer of the SQLite file: a strict first-in-first-out
// queue of functions whose transactions are committed in groups. A function may
// be run again after its transaction was rolled back.
type Writer interface {
	// Write queues fn and returns once it is durable, or why it is not.
	Write(ctx context.Context, fn func(Tx) error) error
	// Enqueue queues fn without blocking. When it returns, fn has its place:
	// nothing queued later runs before it. done is told once whether fn is
	// durable.
	Enqueue(fn func(Tx) error, done func(error))
}

// Reader reads the same file, apart from the writer, and sees everything that
// was committed before the call. A pool of read-only connections is one.
type Reader interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Loader reads profiles, aligned with users; see [profile.Profiles].
type Loader interface {
	Load(ctx context.Context, users []int32) ([]*profile.Profile, error)
}

// Ports is what an inbox is joined to.
type Ports struct {
	Writer Writer
	Reader Reader
	// Profiles lets Recover find events that were folded but not marked
	// before it delivers anything. Without it that is left to the profile's
	// ids at folding time, which see fewer of them; see Recover.
	Profiles Loader
	Log      *slog.Logger
}
