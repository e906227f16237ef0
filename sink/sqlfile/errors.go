package sqlfile

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"keyfold/engine"
)

// ErrClosed: the file was closed before the function ran. Nothing was written.
var ErrClosed = errors.New("sqlite: file is closed")

// ReasonCorrupt is the reason of an error that names a damaged file or row.
const ReasonCorrupt = "store_corrupt"

// Reasons of the other errors that this package marks.
const (
	reasonRejected    = "document_rejected"
	reasonNotWritable = "store_not_writable"
	reasonNotKeyfold  = "store_not_keyfold"
	reasonNewer       = "store_newer"
)

// codeOf returns the primary result code of SQLite in err's chain, or 0.
func codeOf(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// mark gives an error of SQLite its kind. Busy, locked, full and I/O errors may
// pass and stay transient, as does everything that is not listed.
func mark(path string, err error) error {
	if err == nil {
		return nil
	}
	switch codeOf(err) {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_TOOBIG, lib.SQLITE_MISMATCH:
		return engine.PermanentError(reasonRejected, fmt.Errorf("%s rejected the document: %w", path, err))
	case lib.SQLITE_CORRUPT:
		return engine.ConfigurationError(ReasonCorrupt, fmt.Errorf(
			"%s is damaged: stop every program that uses it, then restore it from a backup, "+
				"or save what is readable with the sqlite3 shell's .recover: %w", path, err))
	case lib.SQLITE_NOTADB:
		return engine.ConfigurationError(reasonNotKeyfold, fmt.Errorf(
			"%s is no SQLite database: name another file, or move this one away: %w", path, err))
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return engine.ConfigurationError(reasonNotWritable, fmt.Errorf(
			"%s cannot be written: give this user write permission on the file and its folder, "+
				"and mount the volume read-write: %w", path, err))
	case lib.SQLITE_FULL:
		return fmt.Errorf("no room for %s: free space on its volume: %w", path, err)
	default:
		return fmt.Errorf("%s: %w", path, err)
	}
}

// markOpen is mark for errors of opening, where a file that cannot be opened is
// a wrong path or a missing permission. Later it would be a lack of file
// descriptors, which passes.
func markOpen(path string, err error) error {
	if codeOf(err) == lib.SQLITE_CANTOPEN {
		return engine.ConfigurationError(reasonNotWritable, fmt.Errorf(
			"%s cannot be opened: check that the folder exists and that this user may read and write in it: %w", path, err))
	}
	return mark(path, err)
}

// endsTransaction reports whether SQLite may have rolled back the whole
// transaction by itself after err. Statements that follow would then each be
// committed alone.
func endsTransaction(err error) bool {
	switch codeOf(err) {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_TOOBIG, lib.SQLITE_MISMATCH,
		lib.SQLITE_ERROR, lib.SQLITE_RANGE, lib.SQLITE_MISUSE, lib.SQLITE_AUTH, 0:
		return false
	default:
		return true
	}
}

// notCommitted reports whether a COMMIT that failed with err certainly kept
// nothing: it was refused before it wrote.
func notCommitted(err error) bool {
	switch codeOf(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_CONSTRAINT, lib.SQLITE_READONLY:
		return true
	default:
		return false
	}
}
