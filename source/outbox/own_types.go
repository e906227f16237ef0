package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// typeList is the list of names that the column event_type takes.
type typeList struct {
	names []string
	// change makes the statements by which it takes other names. nil: the list is the shop's.
	change func(names []string) string
	cure   string // of a list that is the shop's; a % stands for the name
}

var quotedName = regexp.MustCompile(`'((?:[^']|'')*)'`)

// namesIn returns what stands in single quotes.
func namesIn(text string) (names []string) {
	for _, match := range quotedName.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// quotedNames writes a list of names, which stay as [namesIn] found them.
func quotedNames(names []string) string { return "'" + strings.Join(names, "', '") + "'" }

// typeListOf returns the list of names that the column takes, nil where it takes any.
func typeListOf(ctx context.Context, conn *sql.Conn, flavour string) (*typeList, error) {
	switch flavour {
	case PostgreSQL:
		return postgresTypeList(ctx, conn)
	case SQLite:
		return sqliteTypeList(ctx, conn)
	}
	return mysqlTypeList(ctx, conn, flavour)
}

const (
	mysqlTypeColumn = `SELECT column_type, is_nullable = 'YES', column_default, character_set_name, collation_name, column_comment FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = 'user_interactions' AND column_name = 'event_type' AND data_type = 'enum'`
	postgresTypeNames = `SELECT enumlabel, format_type(atttypid, NULL) FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid JOIN pg_attribute ON atttypid = pg_type.oid
		WHERE attrelid = to_regclass('user_interactions') AND attname = 'event_type' ORDER BY enumsortorder`
	postgresChecks = `SELECT quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint
		WHERE conrelid = to_regclass('user_interactions') AND contype = 'c' ORDER BY conname`
	sqliteTypeTable = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'user_interactions'"
)

// mysqlTypeList is that of an ENUM. A name behind its last one rewrites no row.
func mysqlTypeList(ctx context.Context, conn *sql.Conn, flavour string) (*typeList, error) {
	found, err := collect(ctx, conn, func(s scanner) (*typeList, error) {
		var kind, charset, collation, comment string
		var null bool
		var standard sql.NullString
		if err := s.Scan(&kind, &null, &standard, &charset, &collation, &comment); err != nil {
			return nil, err
		}
		return &typeList{names: namesIn(kind), change: func(names []string) string {
			text := fmt.Sprintf("ALTER TABLE user_interactions MODIFY event_type ENUM(%s) CHARACTER SET %s COLLATE %s", quotedNames(names), charset, collation)
			if !null {
				text += " NOT NULL"
			}
			if standard.Valid && flavour == MySQL {
				text += " DEFAULT " + mysqlText(standard.String)
			} else if standard.Valid {
				text += " DEFAULT " + standard.String // MariaDB tells it as SQL has it
			}
			return text + " COMMENT " + mysqlText(comment)
		}}, nil
	}, mysqlTypeColumn)
	return first(found), err
}

// mysqlText writes a text in the SQL of MySQL and MariaDB.
func mysqlText(text string) string {
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`).Replace(text) + "'"
}

// postgresTypeCheck is a check that is a list of types and nothing else, as PostgreSQL tells it
// of a column of any type of text.
var postgresTypeCheck = regexp.MustCompile(`^CHECK \(+event_type\)?(?:::[a-z ]+)? = ANY \(+ARRAY\[([^\]]*)\]\)*(?:::[a-z ]+\[\])?\)+(?: NOT VALID)?$`)

// postgresTypeList is that of a check, keyfold's or the shop's, or of a type of the shop's.
// Other checks are the shop's rules, and stay.
func postgresTypeList(ctx context.Context, conn *sql.Conn) (*typeList, error) {
	list := &typeList{}
	err := each(ctx, conn, func(s scanner) error {
		var label, name string
		err := s.Scan(&label, &name)
		list.names, list.cure = append(list.names, label), "ALTER TYPE "+name+" ADD VALUE '%'"
		return err
	}, postgresTypeNames)
	if err != nil || list.names != nil {
		return list, err
	}
	checks, err := collect(ctx, conn, func(s scanner) (check [2]string, err error) {
		err = s.Scan(&check[0], &check[1])
		return check, err
	}, postgresChecks)
	for _, check := range checks {
		if found := postgresTypeCheck.FindStringSubmatch(check[1]); found != nil {
			return &typeList{names: namesIn(found[1]), change: func(names []string) string {
				return fmt.Sprintf("ALTER TABLE user_interactions DROP CONSTRAINT %s, ADD CONSTRAINT %[1]s CHECK (event_type IN (%s)) NOT VALID", check[0], quotedNames(names))
			}}, nil
		}
	}
	return nil, err
}

var sqliteTypeNames = regexp.MustCompile(`(?i)["[]?\bevent_type\b["\]]?\s+IN\s*\(([^)]*)\)`)

// sqliteTypeList is that of the check in the table's own text, which SQLite changes there
// alone. Other connections read the text again as the schema's number changes.
func sqliteTypeList(ctx context.Context, conn *sql.Conn) (*typeList, error) {
	tables, err := collect(ctx, conn, column[string], sqliteTypeTable)
	if err != nil || len(tables) == 0 {
		return nil, err
	}
	check := sqliteTypeNames.FindStringSubmatch(tables[0])
	if check == nil {
		return nil, nil
	}
	version, err := collect(ctx, conn, column[int64], "PRAGMA schema_version")
	if err != nil {
		return nil, err
	}
	return &typeList{names: namesIn(check[1]), change: func(names []string) string {
		text := strings.Replace(tables[0], check[0], "event_type IN ("+quotedNames(names)+")", 1)
		return fmt.Sprintf("PRAGMA writable_schema = ON;\n\nUPDATE sqlite_schema SET sql = '%s' WHERE type = 'table' AND name = 'user_interactions';\n\n"+
			"PRAGMA schema_version = %d;\n\nPRAGMA writable_schema = RESET", strings.ReplaceAll(text, "'", "''"), version[0]+1)
	}}, nil
}

func first(found []*typeList) *typeList {
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// lacking returns the shop's own types that the list has not.
func (l *typeList) lacking() (names []string) {
	if l == nil {
		return nil
	}
	for _, t := range profile.EventTypes() {
		if t.Own() && !slices.Contains(l.names, t.String()) {
			names = append(names, t.String())
		}
	}
	return names
}

// takeOwnTypes has the column take the shop's own types too. It takes none away: rows may have
// them, and another process may still write them.
func takeOwnTypes(ctx context.Context, conn *sql.Conn, flavour string, patience *patience) error {
	list, err := typeListOf(ctx, conn, flavour)
	if err != nil {
		return err
	}
	lacking := list.lacking()
	switch {
	case len(lacking) == 0:
		return nil
	case list.change == nil:
		return engine.ConfigurationError(reasonSchema, fmt.Errorf("user_interactions.event_type has a type of the shop's that lacks %s: run %s, then this again",
			strings.Join(lacking, ", "), strings.ReplaceAll(list.cure, "%", lacking[0])))
	}
	return patience.change(ctx, conn, list.change(append(list.names, lacking...)))
}

// checkOwnTypes refuses a column that does not take the shop's own types.
func checkOwnTypes(ctx context.Context, conn *sql.Conn, flavour string) error {
	if !slices.ContainsFunc(profile.EventTypes(), profile.EventType.Own) {
		return nil
	}
	list, err := typeListOf(ctx, conn, flavour)
	if err != nil {
		return err
	}
	if lacking := list.lacking(); len(lacking) > 0 {
		return engine.ConfigurationError(reasonSchema, fmt.Errorf("user_interactions.event_type does not take %s of %s: run %s with this setting",
			strings.Join(lacking, ", "), typesSetting, setupCommand))
	}
	return nil
}

// withOwnTypes puts the shop's own types into the lists of a schema's text.
func withOwnTypes(text string) string {
	var fixed, all []string
	for _, t := range profile.EventTypes() {
		all = append(all, t.String())
		if !t.Own() {
			fixed = append(fixed, t.String())
		}
	}
	return strings.ReplaceAll(text, "("+quotedNames(fixed)+")", "("+quotedNames(all)+")")
}
