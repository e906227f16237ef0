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

// columnType is the type of a shop's column.
type columnType struct {
	column, kind string
	scale        sql.NullInt64 // of a number
}

// The types that a column may have, by its name. SQLite's columns have none.
var (
	mysqlIntegers = []string{"tinyint", "smallint", "mediumint", "int", "bigint"}
	mysqlTimes    = []string{"datetime", "timestamp"}
	mysqlTypes    = map[string][]string{
		"id": mysqlIntegers, "user_id": append([]string{"decimal"}, mysqlIntegers...),
		"occurred_at": mysqlTimes, "created_at": mysqlTimes, "processed_to_queue": mysqlIntegers,
	}
	postgresIntegers = []string{"smallint", "integer", "bigint"}
	postgresTimes    = []string{"timestamp without time zone", "timestamp with time zone"}
	postgresTypes    = map[string][]string{
		"id": postgresIntegers, "user_id": append([]string{"numeric"}, postgresIntegers...),
		"occurred_at": postgresTimes, "created_at": postgresTimes, "processed_to_queue": {"boolean"},
	}
)

// checkTypes refuses a table with a column of a type that keyfold cannot work with:
// its own statements, or the shop's INSERT, would fail once the table is changed.
func (a *adoption) checkTypes(ctx context.Context, conn *sql.Conn) error {
	if a.types == nil {
		return nil
	}
	found, err := collect(ctx, conn, func(s scanner) (c columnType, err error) {
		err = s.Scan(&c.column, &c.kind, &c.scale)
		return c, err
	}, "SELECT column_name, data_type, numeric_scale FROM information_schema.columns WHERE table_name = 'user_interactions' AND table_schema = "+a.schema)
	if err != nil {
		return err
	}
	var wrong []string
	for _, c := range found {
		expected := a.types[strings.ToLower(c.column)]
		whole := c.kind != "decimal" && c.kind != "numeric" || c.scale.Valid && c.scale.Int64 == 0
		if expected != nil && (!whole || !slices.Contains(expected, strings.ToLower(c.kind))) {
			wrong = append(wrong, fmt.Sprintf("%s has the type %s (expected %s)", c.column, c.kind, strings.Join(expected, ", ")))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return engine.ConfigurationError(reasonSchema, errors.New("user_interactions cannot be taken over, and nothing was changed: "+strings.Join(wrong, "; ")+
		"; numbers have no decimals. Change the types, and run this again"))
}
