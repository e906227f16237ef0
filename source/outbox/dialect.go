package outbox

import (
	"context"
	"database/sql"
	"strings"

	"github.com/pressly/goose/v3"

	"keyfold/engine/causes"
)

// dialect is what differs between the databases in what they do.
type dialect interface {
	// variant tells the servers of one dialect apart, which [SQL] names, and
	// refuses those that are too old.
	variant(ctx context.Context, conn *sql.Conn) (string, error)
	// lockSetup keeps several setups from running at once. It has a connection of its own.
	lockSetup(ctx context.Context, pool *sql.DB) (unlock func(context.Context) error, err error)
	// holder describes what holds a lock on one of the tables; "" where that is not told.
	holder(ctx context.Context, conn *sql.Conn, tables ...string) string
	// classify says what an error of the driver means.
	classify(err error) class
	// causeOf returns what keeps the database from being used, "" where err does not say.
	causeOf(err error) causes.ID
	// cure returns a stable reason and the cure of a configuration fault that has no cause there.
	cure(err error) (reason, cure string)
	// try runs statements of tx that may fail. Where they do, tx goes on without them.
	try(ctx context.Context, tx *sql.Tx, do func() error) error
	// overwrite removes what deleted rows have left in a file that keyfold keeps.
	overwrite(ctx context.Context, pool *sql.DB) error
	// lease locks shards of those wanted that no other relay holds.
	lease(ctx context.Context, pool *sql.DB, wanted []int) (*lease, error)
	// release ends what outlives leases.
	release() error
}

// words are what differs between the databases in names and statements. A % stands for
// what the method of the field puts there.
type words struct {
	migrations    goose.Dialect
	server        causes.Server // in the table of causes
	currentSchema string        // the expression of the schema that tables are made in; "" where no foreign key can be added to one
	findsNulls    string        // a query that finds something where processed_to_queue may be NULL
	oldestFirst   string        // the order of a shard's rows in idx_unsent, by their ids
	byID          string        // behind a table: use the rows' own order
	useIndex      string        // behind a table
	text          string        // of a column of times that is compared with what may be none
	inUnion       string        // of a SELECT with a LIMIT
	// sharedLock and rowLock end a SELECT that keeps others from changing, and from
	// locking, the rows that it finds until its transaction ends; skipLocked is rowLock
	// for a SELECT that leaves out what others have locked.
	sharedLock, rowLock, skipLocked string
}

func (w *words) index(name string) string { return strings.Replace(w.useIndex, "%", name, 1) }

func (w *words) asText(column string) string { return strings.Replace(w.text, "%", column, 1) }

func (w *words) part(query string) string { return strings.Replace(w.inUnion, "%", query, 1) }

// class is what an error of the database means for what met it.
type class uint8

const (
	classOther     class = iota // transient, as everything unlisted
	classAway                   // the database cannot be reached, or is stopping
	classDuplicate              // a unique key exists
	classCollision              // deadlock, busy: run the transaction again
	classLocked                 // waited too long for a row: run it again, or do without the row
	classRejected               // this row never fits
	classFault                  // configuration
)
