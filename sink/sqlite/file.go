package sqlite

import (
	"context"
	"database/sql"
	"iter"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/sink/sqlfile"
)

// File is an open file: what a [Reader] reads, and everything that writes. All
// methods may be called from any goroutine.
type File struct {
	*Reader
	*sqlfile.File
}

var (
	_ profile.Profiles = (*File)(nil)
	_ profile.Eraser   = (*File)(nil)
)

// Open opens the file at path as [sqlfile.Open] does. A file made with other
// settings is an [engine.ConfigurationError].
func Open(path string, s Settings) (*File, error) {
	if err := s.Validate(); err != nil {
		return nil, engine.ConfigurationError(reasonSettings, err)
	}
	reader := &Reader{}
	schema := reader.schema()
	schema.Adopt = s.adopt
	file, err := sqlfile.Open(path, schema)
	if err != nil {
		return nil, err
	}
	reader.Reader = file.Reader()
	return &File{Reader: reader, File: file}, nil
}

// Reader reads a file, also while another process writes it. All methods may be
// called from any goroutine.
type Reader struct {
	*sqlfile.Reader
	settings Settings
}

// OpenReader opens an existing file read-only, as [sqlfile.OpenReader] does.
func OpenReader(path string) (*Reader, error) {
	r := &Reader{}
	file, err := sqlfile.OpenReader(path, r.schema())
	if err != nil {
		return nil, err
	}
	r.Reader = file
	return r, nil
}

// Settings returns what the file's profiles have in common.
func (r *Reader) Settings() Settings { return r.settings }

// schema returns what makes a file one of these. Its check reads the settings.
func (r *Reader) schema() sqlfile.Schema {
	return sqlfile.Schema{
		ApplicationID: applicationID,
		Migrations:    migrations,
		Frequent:      []string{loadProfiles, pageProfiles, loadProducts, pageProducts},
		Check: func(file *sqlfile.Reader) (err error) {
			r.settings, err = storedSettings(file)
			return err
		},
	}
}

// pageRows is how many rows an iteration reads at a time. No read transaction is
// open between pages, however slow the loop's body: one would keep the log from
// being reused.
const pageRows = 128

// pages yields the rows of a query that takes the key before a page, its size and more.
func pages[T any](
	ctx context.Context, r *Reader, scan func(*sql.Rows) (T, error), key func(T) int32, query string, more ...any,
) iter.Seq2[T, error] {
	return engine.Pages(pageRows, func(after int64) (page []T, last int64, err error) {
		if page, err = sqlfile.Collect(ctx, r.Reader, scan, query, append([]any{after, pageRows}, more...)...); len(page) > 0 {
			last = int64(key(page[len(page)-1]))
		}
		return page, last, err
	})
}
