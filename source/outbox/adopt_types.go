package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// columnType is the type of a shop's column.
type columnType struct {
	column, kind string
	scale        sql.NullInt64 // of a number
}

// The types that a column may have, by its name. Of SQLite they are the affinities, by which
// it stores and compares values.
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
	sqliteIntegers = []string{"integer", "numeric"}
	sqliteTypes    = map[string][]string{"id": {"integer"}, "user_id": sqliteIntegers, "processed_to_queue": sqliteIntegers}
)

// columnTypes is the query of the columns' types in a schema; %s is its expression.
const columnTypes = "SELECT column_name, data_type, numeric_scale FROM information_schema.columns WHERE table_name = 'user_interactions' AND table_schema = %s"

// sqliteColumnTypes has SQLite's rules of affinity, and those of a column that is the row's
// own number, or else may be NULL.
const sqliteColumnTypes = `SELECT name, CASE
	WHEN lower(name) = 'id' AND NOT (upper(type) = 'INTEGER' AND pk = 1) AND "notnull" = 0 THEN type || ' that may be NULL'
	WHEN upper(type) LIKE '%INT%' THEN 'integer' WHEN upper(type) LIKE '%CHAR%' OR upper(type) LIKE '%CLOB%' OR upper(type) LIKE '%TEXT%' THEN 'text'
	WHEN type = '' OR upper(type) LIKE '%BLOB%' THEN 'blob' WHEN upper(type) LIKE '%REAL%' OR upper(type) LIKE '%FLOA%' OR upper(type) LIKE '%DOUB%' THEN 'real'
	ELSE 'numeric' END, 0 FROM pragma_table_info('user_interactions')`

// checkTypes refuses a table with a column of a type that keyfold cannot work with:
// its own statements, or the shop's INSERT, would fail once the table is changed.
func (a *adoption) checkTypes(ctx context.Context, conn *sql.Conn) error {
	found, err := collect(ctx, conn, func(s scanner) (c columnType, err error) {
		err = s.Scan(&c.column, &c.kind, &c.scale)
		return c, err
	}, a.typesOf)
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
	return cannotAdopt(strings.Join(wrong, "; ") + "; numbers have no decimals. Change the types, and run this again")
}
