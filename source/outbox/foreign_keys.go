package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"keyfold/engine"
)

// foreignKey ties a column to the id of another table.
type foreignKey struct {
	name, column, table, onDelete string
}

var foreignKeys = []foreignKey{
	{"fk_user_interactions_user", "user_id", "users", "CASCADE"},
	{"fk_user_interactions_product", "product_id", "products", "SET NULL"},
}

func (k foreignKey) statement() string {
	return fmt.Sprintf("ALTER TABLE user_interactions ADD CONSTRAINT %s FOREIGN KEY (%s) REFERENCES %s (id) ON DELETE %s",
		k.name, k.column, k.table, k.onDelete)
}

var errNoForeignKeys = engine.ConfigurationError(reasonSchema,
	errors.New("SQLite cannot add foreign keys to a table: run setup without them"))

func (d *Database) addForeignKeys(ctx context.Context, conn *sql.Conn, patience *patience) error {
	schema := d.words.currentSchema
	if schema == "" {
		return errNoForeignKeys
	}
	for _, key := range foreignKeys {
		var there int
		err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.table_constraints "+
			"WHERE constraint_schema = "+schema+" AND table_name = 'user_interactions' AND constraint_name = ?", key.name).Scan(&there)
		if err != nil {
			return d.fault("look for foreign keys", err)
		}
		if there > 0 {
			continue
		}
		if err := patience.change(ctx, conn, key.statement()); err != nil {
			return engine.ConfigurationError(reasonSchema, fmt.Errorf(
				"%s cannot be tied to %s: that table needs a column id of type INT as its primary key, "+
					"and a row for every %s there is; or run setup without foreign keys: %w", key.column, key.table, key.column, err))
		}
	}
	return nil
}
