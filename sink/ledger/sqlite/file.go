package sqlite

import (
	"keyfold/engine/notify"
	"keyfold/sink/sqlfile"
)

// Ledger is an open file: what a [Reader] reads, and everything that writes. All
// methods may be called from any goroutine.
type Ledger struct {
	*Reader
	*sqlfile.File
}

var (
	_ notify.Ledger  = (*Ledger)(nil)
	_ notify.Reports = (*Ledger)(nil)
)

// Open opens the file at path, as [sqlfile.Open] does, and creates it where there is
// none.
func Open(path string) (*Ledger, error) {
	file, err := sqlfile.Open(path, schema)
	if err != nil {
		return nil, err
	}
	return &Ledger{Reader: &Reader{file.Reader()}, File: file}, nil
}

// Reader reads a file, also while another process writes it. All methods may be
// called from any goroutine.
type Reader struct{ *sqlfile.Reader }

// OpenReader opens an existing file read-only, as [sqlfile.OpenReader] does.
func OpenReader(path string) (*Reader, error) {
	file, err := sqlfile.OpenReader(path, schema)
	if err != nil {
		return nil, err
	}
	return &Reader{file}, nil
}

var schema = sqlfile.Schema{
	ApplicationID: applicationID,
	Migrations:    migrations,
	Frequent:      []string{loadUsers, loadKeys, loadDeferrals, findDecisions, nextDue},
}
