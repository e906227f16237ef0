package sqlite

import (
	"context"
	"database/sql"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

var _ ledger.Merger = (*Ledger)(nil)

const (
	linkOf = `SELECT user_id FROM notify_aliases WHERE alias = ?`

	linksTo = `SELECT alias, merged_at FROM notify_aliases WHERE user_id = ? ORDER BY number`

	putLink = `INSERT INTO notify_aliases (alias, user_id, merged_at) VALUES (?, ?, ?)`

	deletePreferences = `DELETE FROM notify_preferences WHERE user_id = ?`

	deleteResponses = `DELETE FROM notify_responses WHERE user_id = ?`

	// Aliases of one who becomes an alias.
	turnAliases = `UPDATE notify_users SET version = version + 1, state = ?2, decided_at = ?3
		WHERE user_id IN (SELECT alias FROM notify_aliases WHERE user_id = ?1)`
)

// moves make what is stored of an alias that of the user; they take both. The records of both
// get new numbers in the order of notify.Interleave: below 0 at first, because a number
// stands once.
var moves = []string{
	`UPDATE notify_event_keys SET user_id = ?2 WHERE event_id IN (SELECT event_id FROM notify_decisions WHERE user_id = ?1)`,
	`UPDATE notify_deferrals SET user_id = ?2 WHERE user_id = ?1`,
	`UPDATE notify_decisions SET user_id = ?2, seq = -n.number
		FROM (SELECT decision_id, row_number() OVER (ORDER BY decided_at, user_id = ?1, seq) AS number
			FROM notify_decisions WHERE user_id IN (?1, ?2)) n
		WHERE n.decision_id = notify_decisions.decision_id`,
	`UPDATE notify_decisions SET seq = -seq WHERE user_id = ?2 AND seq < 0`,
}

// Merge implements [ledger.Merger].
func (l *Ledger) Merge(ctx context.Context, m *notify.Merge) (decisions int, err error) {
	err = l.Write(ctx, func(tx *sqlfile.Tx) error {
		moved, err := merge(tx, m)
		decisions = moved
		return err
	})
	if err != nil { // the function may be running still
		return 0, err
	}
	return decisions, nil
}

func merge(tx *sqlfile.Tx, m *notify.Merge) (decisions int, err error) {
	for user, version := range map[string]int64{m.Alias: m.AliasVersion, m.Into: m.IntoVersion} {
		stored, err := storedUser(tx, user)
		if err != nil {
			return 0, err
		}
		if stored.erased || stored.version != version {
			return 0, engine.ErrConflict
		}
	}
	counts, err := sqlfile.Select(tx, func(rows *sql.Rows) (n int, err error) { return n, rows.Scan(&n) }, countRecords, m.Alias)
	if err != nil {
		return 0, err
	}
	for _, statement := range moves {
		if _, err := tx.Exec(statement, m.Alias, m.Into); err != nil {
			return 0, err
		}
	}
	if err := moveResponses(tx, m); err != nil {
		return 0, err
	}
	if err := movePreferences(tx, m); err != nil {
		return 0, err
	}
	return counts[0], putMerged(tx, m)
}

// moveResponses joins the responses of both.
func moveResponses(tx *sqlfile.Tx, m *notify.Merge) error {
	responses, err := readResponses(tx, []string{m.Alias, m.Into})
	if err != nil || responses[m.Alias] == nil {
		return err
	}
	joined, err := encodeJSON(responses[m.Into].Join(responses[m.Alias]))
	if err != nil {
		return err
	}
	if _, err := tx.Exec(deleteResponses, m.Alias); err != nil {
		return err
	}
	_, err = tx.Exec(putResponses, m.Into, joined)
	return err
}

// movePreferences stores the preferences of both, where the alias had some.
func movePreferences(tx *sqlfile.Tx, m *notify.Merge) error {
	gone, err := preferencesVersion(tx, m.Alias)
	if err != nil || gone == 0 {
		return err
	}
	if _, err := tx.Exec(deletePreferences, m.Alias); err != nil {
		return err
	}
	own, err := encodeJSON(&m.Preferences)
	if err != nil {
		return err
	}
	version, err := preferencesVersion(tx, m.Into)
	if err == nil {
		_, err = tx.Exec(putPreferences, m.Into, own, max(gone, version)+1) // a version of either is none of theirs
	}
	return err
}

// putMerged stores the states of both, and who stands for whom.
func putMerged(tx *sqlfile.Tx, m *notify.Merge) error {
	alias := m.OfAlias()
	state, at := alias.Append(nil), int64(alias.DecidedAt)
	both := []byte{}
	if m.State != nil {
		both = m.State.Append(nil)
	}
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{putUser, []any{m.Into, m.AliasVersion + m.IntoVersion + 1, both, at, nil}},
		{putUser, []any{m.Alias, m.AliasVersion + 1, state, at, nil}},
		{turnAliases, []any{m.Alias, state, at}},
		{`UPDATE notify_aliases SET user_id = ?2 WHERE user_id = ?1`, []any{m.Alias, m.Into}},
		{putLink, []any{m.Alias, m.Into, int64(m.At)}},
	} {
		if _, err := tx.Exec(step.statement, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// userOf returns the user that an id stands for: itself, but of an alias.
func userOf(tx *sqlfile.Tx, id string) (string, error) {
	into, err := sqlfile.Select(tx, scanText, linkOf, id)
	if err != nil || len(into) == 0 {
		return id, err
	}
	return into[0], nil
}

// notAlias returns a [*ledger.MergedError] of an alias.
func notAlias(tx *sqlfile.Tx, user string) error {
	into, err := userOf(tx, user)
	if err == nil && into != user {
		err = &ledger.MergedError{User: user, Into: into}
	}
	return err
}

func scanText(rows *sql.Rows) (text string, err error) {
	err = rows.Scan(&text)
	return text, err
}

func scanAlias(rows *sql.Rows) (a notify.Alias, err error) {
	err = rows.Scan(&a.ID, &a.MergedAt)
	return a, err
}

// Aliases returns the ids that stand for a user, in the order in which they were merged.
func (r *Reader) Aliases(ctx context.Context, user string) ([]notify.Alias, error) {
	return sqlfile.Collect(ctx, r.Reader, scanAlias, linksTo, user)
}
