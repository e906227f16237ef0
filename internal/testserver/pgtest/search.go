package pgtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"keyfold/internal/testserver/must"
)

// Search returns where a text stands in a database: "table: rows", for each table and
// partition outside the server's own schemas. It reads every column of every row, those of
// bytes too. Texts have no quote and no backslash.
func Search(t testing.TB, url string, texts ...string) (places []string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	must.OK(t, err)
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1`)
	must.OK(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d tables: %v", len(tables), err)
	}
	for _, text := range texts {
		for _, table := range tables {
			var n int
			err := conn.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %s AS r WHERE strpos(r::text, $1) > 0 OR strpos(r::text, $2) > 0`, table),
				text, hex.EncodeToString([]byte(text))).Scan(&n)
			if err != nil {
				t.Fatalf("%s: %v", table, err)
			}
			if n > 0 {
				places = append(places, fmt.Sprintf("%q in %s: %d rows", text, table, n))
			}
		}
	}
	return places
}
