package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

var _ ledger.Merger = (*Ledger)(nil)

// A merge takes locks in the order of notify_commit: new users, known users, keys, deferrals,
// each sorted; then records and responses in the order of reports.
const (
	makeUsers = `INSERT INTO notify_users (user_id, version, state, decided_at)
		SELECT u.id, 0, '', to_timestamp(0) FROM unnest($1::text[]) AS u (id) ORDER BY u.id COLLATE "C"
		ON CONFLICT (user_id) DO NOTHING`

	lockUsers = `SELECT user_id, version FROM notify_users WHERE user_id = ANY ($1) ORDER BY user_id COLLATE "C" FOR UPDATE`

	putUser = `UPDATE notify_users SET version = $2, state = $3, decided_at = $4 WHERE user_id = $1`

	recordsOfUsers = `SELECT decision_id, event_id, user_id, seq, decided_at FROM notify_decisions WHERE user_id = ANY ($1) ORDER BY seq`

	moveKeys = `UPDATE notify_event_keys SET user_id = $2 WHERE event_id IN (
		SELECT event_id FROM notify_event_keys WHERE event_id = ANY ($3::uuid[]) AND user_id = $1 ORDER BY event_id FOR UPDATE)`

	// Keys of records that retention has dropped.
	moveOldKeys = `UPDATE notify_event_keys SET user_id = $2 WHERE event_id IN (
		SELECT event_id FROM notify_event_keys WHERE decided_at < $3 AND user_id = $1 ORDER BY event_id FOR UPDATE)`

	moveDeferrals = `UPDATE notify_deferrals SET user_id = $2 WHERE event_id IN (
		SELECT event_id FROM notify_deferrals WHERE user_id = $1 ORDER BY event_id FOR UPDATE)`

	moveRecords = `UPDATE notify_decisions d SET user_id = $1, seq = w.seq FROM unnest($2::uuid[], $3::bigint[]) AS w (id, seq)
		WHERE d.decided_at = notify_instant(w.id) AND d.decision_id = w.id`

	takePreferences = `DELETE FROM notify_preferences WHERE user_id = $1 RETURNING version`

	joinPreferences = `INSERT INTO notify_preferences AS p (user_id, preferences, version) VALUES ($1, $2::json, $3 + 1)
		ON CONFLICT (user_id) DO UPDATE SET preferences = excluded.preferences, version = greatest(p.version + 1, excluded.version),
			updated_at = now()`

	// Aliases of one who becomes an alias.
	turnAliases = `UPDATE notify_users SET version = version + 1, state = $2, decided_at = $3 WHERE user_id IN (
		SELECT u.user_id FROM notify_users u WHERE u.user_id IN (SELECT a.alias FROM notify_aliases a WHERE a.user_id = $1)
		ORDER BY u.user_id COLLATE "C" FOR UPDATE)`

	turnLinks = `UPDATE notify_aliases SET user_id = $2 WHERE user_id = $1`

	putLink = `INSERT INTO notify_aliases (alias, user_id, merged_at) VALUES ($1, $2, $3)`

	linkOf = `SELECT user_id FROM notify_aliases WHERE alias = $1`

	linksTo = `SELECT alias, merged_at FROM notify_aliases WHERE user_id = $1 ORDER BY number`

	lockAliases = `SELECT u.user_id, u.decided_at FROM notify_users u
		WHERE u.user_id IN (SELECT a.alias FROM notify_aliases a WHERE a.user_id = $1) ORDER BY u.user_id COLLATE "C" FOR UPDATE`

	deleteLinks = `DELETE FROM notify_aliases WHERE user_id = $1`
)

// Merge implements [ledger.Merger].
func (l *Ledger) Merge(ctx context.Context, m *notify.Merge) (decisions int, err error) {
	err = l.indexed(ctx, "merge", func(ctx context.Context, tx pgx.Tx) (err error) {
		if err = lockMerge(ctx, tx, m); err != nil {
			return err
		}
		if decisions, err = moveDecided(ctx, tx, m); err != nil {
			return err
		}
		if err = moveResponses(ctx, tx, m); err != nil {
			return err
		}
		if err = movePreferences(ctx, tx, m); err != nil {
			return err
		}
		return putMerged(ctx, tx, m)
	})
	switch {
	case err == nil:
		return decisions, nil
	case raced(err):
		err = fmt.Errorf("%w: %w", engine.ErrConflict, err)
	}
	return 0, err
}

// lockMerge locks the rows of both users, and expects the versions that a merge was made from.
func lockMerge(ctx context.Context, tx pgx.Tx, m *notify.Merge) error {
	users := []string{m.Alias, m.Into}
	if _, err := tx.Exec(ctx, makeUsers, users); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, lockUsers, users)
	if err != nil {
		return err
	}
	versions := map[string]int64{}
	var user string
	var version int64
	if _, err = pgx.ForEachRow(rows, []any{&user, &version}, func() error {
		versions[user] = version
		return nil
	}); err != nil {
		return err
	}
	// Without a row the user was erased meanwhile.
	alias, there := versions[m.Alias]
	into, both := versions[m.Into]
	if !there || !both || alias != m.AliasVersion || into != m.IntoVersion {
		return engine.ErrConflict
	}
	return nil
}

// record is what a merge reads of a record.
type record struct {
	decision, event uuid.UUID
	seq             int64
	decidedAt       engine.Millis
}

// moveDecided makes keys, deferrals and records of the alias those of the user, and numbers the
// records of both anew. It returns how many the alias had.
func moveDecided(ctx context.Context, tx pgx.Tx, m *notify.Merge) (decisions int, err error) {
	ofAlias, ofInto, err := recordsOfBoth(ctx, tx, m)
	if err != nil {
		return 0, err
	}
	events := make([]uuid.UUID, len(ofAlias))
	for i := range ofAlias {
		events[i] = ofAlias[i].event
	}
	// No partition is dropped from here on: the reading of records has locked them.
	rows, err := tx.Query(ctx, listPartitions)
	if err != nil {
		return 0, err
	}
	days, err := pgx.CollectRows(rows, scanPartition)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, moveKeys, m.Alias, m.Into, texts(events)); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, moveOldKeys, m.Alias, m.Into, oldestOf(days).Time()); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, moveDeferrals, m.Alias, m.Into); err != nil {
		return 0, err
	}
	var moved []string
	var seqs []int64
	for i, r := range notify.Interleave(ofAlias, ofInto, func(r *record) engine.Millis { return r.decidedAt }) {
		moved, seqs = append(moved, r.decision.String()), append(seqs, int64(i)+1)
	}
	if _, err := tx.Exec(ctx, lockRecords, moved); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, moveRecords, m.Into, moved, seqs)
	return len(ofAlias), err
}

func recordsOfBoth(ctx context.Context, tx pgx.Tx, m *notify.Merge) (ofAlias, ofInto []record, err error) {
	rows, err := tx.Query(ctx, recordsOfUsers, []string{m.Alias, m.Into})
	if err != nil {
		return nil, nil, err
	}
	var (
		r    record
		user string
		at   time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&r.decision, &r.event, &user, &r.seq, &at}, func() error {
		r.decidedAt = millisOf(&at)
		if user == m.Alias {
			ofAlias = append(ofAlias, r)
		} else {
			ofInto = append(ofInto, r)
		}
		return nil
	})
	return ofAlias, ofInto, err
}

// moveResponses joins the responses of both. Their records are locked, so that no report
// changes them meanwhile.
func moveResponses(ctx context.Context, tx pgx.Tx, m *notify.Merge) error {
	rows, err := tx.Query(ctx, lockResponses, []string{m.Alias, m.Into})
	if err != nil {
		return err
	}
	responses := map[string]*notify.Responses{}
	var user string
	var text []byte
	if _, err = pgx.ForEachRow(rows, []any{&user, &text}, func() error {
		r, err := decode.Responses(text)
		if err == nil && r.At != 0 { // or else the row was made to be locked
			responses[user] = r
		}
		return err
	}); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, deleteResponses, m.Alias); err != nil {
		return err
	}
	joined := responses[m.Into].Join(responses[m.Alias])
	if joined == nil {
		_, err = tx.Exec(ctx, deleteResponses, m.Into)
		return err
	}
	stored, err := json.Marshal(joined)
	if err == nil {
		_, err = tx.Exec(ctx, putResponses, []string{m.Into}, []string{string(stored)})
	}
	return err
}

// movePreferences stores the preferences of both, where the alias had some. Their version is
// one that neither had: a change that was made from either's is refused.
func movePreferences(ctx context.Context, tx pgx.Tx, m *notify.Merge) error {
	var gone int64
	switch err := tx.QueryRow(ctx, takePreferences, m.Alias).Scan(&gone); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	own, err := json.Marshal(&m.Preferences)
	if err == nil {
		_, err = tx.Exec(ctx, joinPreferences, m.Into, string(own), gone)
	}
	return err
}

// putMerged stores the states of both, and who stands for whom.
func putMerged(ctx context.Context, tx pgx.Tx, m *notify.Merge) error {
	alias := m.OfAlias()
	state, at := alias.Append(nil), alias.DecidedAt.Time()
	both := []byte{}
	if m.State != nil {
		both = m.State.Append(nil)
	}
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{putUser, []any{m.Into, m.AliasVersion + m.IntoVersion + 1, both, at}},
		{putUser, []any{m.Alias, m.AliasVersion + 1, state, at}},
		{turnAliases, []any{m.Alias, state, at}},
		{turnLinks, []any{m.Alias, m.Into}},
		{putLink, []any{m.Alias, m.Into, m.At.Time()}},
	} {
		if _, err := tx.Exec(ctx, step.statement, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// userOf returns the user that an id stands for, "" where it is no alias.
func userOf(ctx context.Context, tx pgx.Tx, id string) (user string, err error) {
	err = tx.QueryRow(ctx, linkOf, id).Scan(&user)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return user, err
}

// Aliases returns the ids that stand for a user, in the order in which they were merged.
func (l *Ledger) Aliases(ctx context.Context, user string) ([]notify.Alias, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return collect(ctx, l, "aliases", func(row pgx.CollectableRow) (a notify.Alias, err error) {
		var at time.Time
		err = row.Scan(&a.ID, &at)
		a.MergedAt = millisOf(&at)
		return a, err
	}, linksTo, user)
}
