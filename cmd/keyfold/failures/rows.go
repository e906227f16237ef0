package failures

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/service/failed"
	"keyfold/source/outbox"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
)

// The places where failures are.
const (
	inBroker = failed.Broker
	inSQL    = failed.SQL
)

// each works on the rows and on the letters, as far as where names their place. A place
// that cannot be reached is told after the other's.
func each(a *app.App, where string, rows func(*outbox.Database) error, letters func() error) error {
	var faults []error
	switch {
	case where == inBroker:
	case a.Servers.SQL == "":
		fmt.Fprintln(a.Stderr, "DATABASE_URL is not set: only the broker's dead letters are looked at")
	default:
		faults = append(faults, a.WithDatabase(rows))
	}
	if where != inSQL {
		faults = append(faults, letters())
	}
	return errors.Join(faults...)
}

// rowPrefix starts the ids that failed rows are listed with.
const rowPrefix = "row-"

// reasonUnpublished is the reason of a row that was set aside by a version that stored none.
const reasonUnpublished = "not_published"

// rowsOf yields the failed rows as letters, so that they are picked and printed alike: all
// of them, or the one of an id.
func rowsOf(a *app.App, db *outbox.Database, id string) letters {
	const page = 500
	return func(yield func(*deadletter.Letter, error) bool) {
		ids, err := failedIDs(a, db, id)
		for page := range slices.Chunk(ids, page) {
			var rows []outbox.FailedRow
			if rows, err = db.Failed(a.Ctx, page...); err != nil {
				break
			}
			for i := range rows {
				if !yield(letterOf(&rows[i]), nil) {
					return
				}
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func failedIDs(a *app.App, db *outbox.Database, id string) ([]int64, error) {
	switch n, one := rowID(id); {
	case id == "":
		return db.FailedIDs(a.Ctx)
	case one:
		return []int64{n}, nil
	}
	return nil, nil
}

func letterOf(r *outbox.FailedRow) *deadletter.Letter {
	var failedAt time.Time
	if r.FailedAt != 0 {
		failedAt = r.FailedAt.Time()
	}
	return &deadletter.Letter{
		Subject: consume.Subject{
			ID: rowPrefix + strconv.FormatInt(r.ID, 10), User: strconv.FormatInt(r.UserID, 10), Kind: r.EventType, NumericUser: true,
		},
		Reason: cmp.Or(r.Reason, reasonUnpublished), Retries: r.Attempts, Errors: []string{r.Error},
		FirstFailure: failedAt, LastFailure: failedAt, FirstSeen: engine.Millis(0), Original: r.Body,
	}
}

func rowIDs(rows []*deadletter.Letter) []int64 {
	ids := make([]int64, len(rows))
	for i, l := range rows {
		ids[i], _ = strconv.ParseInt(strings.TrimPrefix(l.ID, rowPrefix), 10, 64) // as letterOf wrote it
	}
	return ids
}

// rowID returns the number of a row, where an id is that of one, in full.
func rowID(id string) (n int64, is bool) {
	n, err := strconv.ParseInt(strings.TrimPrefix(id, rowPrefix), 10, 64)
	return n, strings.HasPrefix(id, rowPrefix) && err == nil
}

// picked gathers rows; none of an id is an error.
func picked(rows letters, id string) (found []*deadletter.Letter, err error) {
	for l, err := range rows {
		if err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	if id != "" && len(found) == 0 {
		return nil, fmt.Errorf("there is no failed %s: `keyfold failed list` shows those there are", id)
	}
	return found, nil
}
