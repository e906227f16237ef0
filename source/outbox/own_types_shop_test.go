package outbox

import (
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// What the shop says of its column, in words that have to be quoted, stays as it is.
func TestSetupLeavesTheColumnsWords(t *testing.T) {
	db := shopDatabase(t, "mariadb")
	exec(t, db, strings.Replace(shopTables["mariadb"], "'product_purchase')", `'product_purchase', 'it''s', 'a\\b') DEFAULT 'it''s' COMMENT 'see C:\\new\\types, ''all'' of them\\'`, 1))
	before := columnOptions(t, db)
	_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
	must.OK(t, err)
	if after := columnOptions(t, db); len(after) != 1 || before[0] != after[0] {
		t.Errorf("the column was %q, and is %q", before, after)
	}
	shopInsert(t, db, 1, `a\b`, nil, 7, recently(2), nil)
	shopInsert(t, db, 1, "it's", nil, 7, recently(2), nil)
	shopInsert(t, db, 1, "outbox_return", nil, 7, recently(2), nil)
}

// A check of the shop's own that is no list of types stays.
func TestSetupLeavesChecksOfTheShop(t *testing.T) {
	for _, check := range []string{"event_type <> ''", "event_type IN ('search', 'product_view') OR user_id > 0", "length(event_type) > 2 AND event_type <> 'junk'"} {
		db := shopDatabase(t, "postgres")
		exec(t, db, strings.Replace(shopTables["postgres"], "event_type VARCHAR(20)", "event_type VARCHAR(20) CHECK ("+check+")", 1))
		_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
		must.OK(t, err)
		must.OK(t, db.Setup(t.Context(), SetupOptions{}))
		must.OK(t, db.Check(t.Context()))
		shopInsert(t, db, 1, "product_click", nil, 7, recently(1), nil)
		shopInsert(t, db, 1, "outbox_return", nil, 7, recently(2), nil)
	}
}

func TestSetupNamesTheShopsType(t *testing.T) {
	db := shopDatabase(t, "postgres")
	exec(t, db, `CREATE SCHEMA "Shop"`)
	exec(t, db, `CREATE TYPE "Shop"."Kind" AS ENUM ('search', 'product_view', 'product_click', 'product_purchase', 'outbox_wish', 'outbox_question')`)
	exec(t, db, strings.Replace(shopTables["postgres"], "event_type VARCHAR(20)", `event_type "Shop"."Kind"`, 1))
	_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
	must.Fault(t, err, reasonSchema, `lacks outbox_return: run ALTER TYPE "Shop"."Kind" ADD VALUE 'outbox_return', then this again`)
}

// On PostgreSQL and SQLite a list of the shop's own is found by whatever name.
func TestSetupFindsTheShopsList(t *testing.T) {
	for _, database := range []string{"postgres", "sqlite"} {
		for name, list := range map[string]string{
			"plain": "event_type IN ('search', 'product_view', 'product_click', 'product_purchase')", "quoted": `"event_type" IN ('search', 'product_view', 'product_click', 'product_purchase')`,
			"named": "other",
		} {
			t.Run(database+"/"+name, func(t *testing.T) {
				db := shopDatabase(t, database)
				column := "old_event_type VARCHAR(20) CHECK (old_event_type IN ('x')), event_type VARCHAR(20) CHECK (" + list + ")"
				if name == "named" {
					column = "event_type VARCHAR(20) CONSTRAINT kinds CHECK (event_type IN ('search', 'product_view', 'product_click', 'product_purchase'))"
				}
				exec(t, db, strings.Replace(shopTables[database], "event_type VARCHAR(20)", column, 1))
				_, err := db.Adopt(t.Context(), "user_interactions", AdoptOptions{})
				must.OK(t, err)
				must.OK(t, db.Setup(t.Context(), SetupOptions{}))
				must.OK(t, db.Check(t.Context()))
				shopInsert(t, db, 1, "outbox_return", nil, 7, recently(2), nil)
			})
		}
	}
}
