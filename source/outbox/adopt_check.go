package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"keyfold/engine"
)

// noMark is the condition of a row that is neither sent nor unsent, where a column takes
// more than two values.
const noMark = "processed_to_queue NOT IN (0, 1)"

func cannotAdopt(why string) error {
	return engine.ConfigurationError(reasonSchema, errors.New("user_interactions cannot be taken over, and nothing was changed: "+why))
}

// checkContents refuses, before anything is changed, a table with names that keyfold gives,
// and with rows of which it cannot be told whether they were sent. Once a take-over has
// begun, the names are keyfold's own.
func (a *adopting) checkContents(ctx context.Context, conn *sql.Conn) error {
	begun, err := collect(ctx, conn, column[string], "SELECT table_name FROM keyfold_adopted WHERE table_name = ?", a.done.Table)
	if err == nil && len(begun) > 0 {
		return nil
	}
	if err := a.checkNames(ctx, conn); err != nil || a.as.marks == "" {
		return err
	}
	var rows int64
	if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM user_interactions WHERE "+a.as.marks).Scan(&rows); err != nil {
		return a.db.fault("look for rows that are neither sent nor unsent", err)
	}
	if rows == 0 {
		return nil
	}
	return cannotAdopt(fmt.Sprintf("%d row(s) have a processed_to_queue that is neither 0 nor 1 nor NULL (%s): set it to 1 where the event was published and "+
		"else to 0, have the shop write the same, and run this again", rows, a.as.marks))
}

func (a *adopting) checkNames(ctx context.Context, conn *sql.Conn) error {
	var columns []string
	for _, definition := range a.as.columns {
		if name, _, _ := strings.Cut(definition, " "); readable(ctx, conn, name) {
			columns = append(columns, name)
		}
	}
	if len(columns) > 0 {
		return cannotAdopt(fmt.Sprintf("it has columns of its own with names that keyfold gives to columns it adds: %s. Rename them, with the shop's statements, "+
			"and run this again", strings.Join(columns, ", ")))
	}
	if a.as.others == "" {
		return nil
	}
	others, err := collect(ctx, conn, column[string], a.as.others)
	if err != nil {
		return a.db.fault("list indexes", err)
	}
	var indexes []string
	for _, index := range a.as.indexes {
		if name, _, _ := strings.Cut(index, " "); slices.Contains(others, name) {
			indexes = append(indexes, name)
		}
	}
	if len(indexes) > 0 {
		return cannotAdopt(fmt.Sprintf("the names of its indexes are taken in this schema: %s. Rename what has them (ALTER INDEX ... RENAME TO; "+
			"SQLite: drop and make it under another name), and run this again", strings.Join(indexes, ", ")))
	}
	return nil
}
