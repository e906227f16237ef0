package evaluate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"keyfold/engine/profile/eval"
	"keyfold/internal/chart"
	"keyfold/service/profile/evaluation"
)

// maxReport bounds what is read of a file that may be another one.
const maxReport = 4 << 20

// ReadPage returns the page of a report that an evaluation has printed as JSON into a file, and when
// it was written. lexical says that the vectors are the offline embedder's.
func ReadPage(path string, lexical bool) (*chart.Page, time.Time, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, fmt.Errorf("%s is not there yet: `keyfold eval -o json` into it makes it, such as once a week", path)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = file.Close() }() // it was only read
	about, err := file.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	var r evaluation.Report
	if err := json.NewDecoder(io.LimitReader(file, maxReport)).Decode(&r); err != nil {
		return nil, time.Time{}, fmt.Errorf("%s holds no report of `keyfold eval -o json`: %w", path, err)
	}
	if !whole(&r) {
		return nil, time.Time{}, fmt.Errorf("%s holds no whole report of `keyfold eval -o json`", path)
	}
	p := page(&r, lexical)
	return &p, about.ModTime(), nil
}

// whole reports whether a report has the rows that a page is made of.
func whole(r *evaluation.Report) bool {
	for _, name := range []string{r.Current, eval.Popularity, eval.Random} {
		if r.Row(name) == nil {
			return false
		}
	}
	for i := range r.Rows {
		if len(r.Rows[i].Groups) != len(r.Groups) {
			return false
		}
	}
	return true
}
