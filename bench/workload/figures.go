package workload

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Query asks PostgreSQL on a connection of its own, and reads one row into the places.
func Query(ctx context.Context, url, text string, args []any, places ...any) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if len(places) == 0 {
		_, err = conn.Exec(ctx, text, args...)
		return err
	}
	return conn.QueryRow(ctx, text, args...).Scan(places...)
}

// RoundTrips returns how often PostgreSQL was asked in a database since its start: a
// call, or several that are sent together, is one transaction there. What a backend has
// done is counted a second later at most.
func RoundTrips(ctx context.Context, url string) (n int64, err error) {
	err = Query(ctx, url, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()", nil, &n)
	return n, err
}

// Committed returns when the decisions of a turn were committed, by event. The server
// runs with track_commit_timestamp.
func Committed(ctx context.Context, url string, turn int) (map[uuid.UUID]time.Time, error) {
	return instants(ctx, url, "SELECT event_id, pg_xact_commit_timestamp(xmin) FROM notify_decisions WHERE defer_count = $1", turn)
}

// DueAt returns when the deferrals are due that are due before an instant, by event.
func DueAt(ctx context.Context, url string, before time.Time) (map[uuid.UUID]time.Time, error) {
	return instants(ctx, url, "SELECT event_id, due_at FROM notify_deferrals WHERE due_at < $1", before)
}

func instants(ctx context.Context, url, query string, arg any) (map[uuid.UUID]time.Time, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, query, arg)
	if err != nil {
		return nil, err
	}
	all := map[uuid.UUID]time.Time{}
	var id uuid.UUID
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		all[id] = at
		return nil
	})
	return all, err
}
