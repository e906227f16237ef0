package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

const (
	loadVersions = `SELECT user_id, version FROM notify_users WHERE user_id IN (SELECT value FROM json_each(?))`

	// SQLite checks erased_at before it finds the tombstone, which keeps its own.
	putUser = `INSERT INTO notify_users (user_id, version, state, decided_at, erased_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (user_id) DO UPDATE SET version = excluded.version, state = excluded.state,
			decided_at = excluded.decided_at`

	putKey = `INSERT INTO notify_event_keys
			(event_id, user_id, turn, decision_id, digest_id, outcome, dispatched, decided_at)
		VALUES (?, ?, ?, ?, ?, ?, 0, ?)
		ON CONFLICT (event_id) DO UPDATE SET turn = excluded.turn, decision_id = excluded.decision_id,
			digest_id = excluded.digest_id, outcome = excluded.outcome, dispatched = 0, decided_at = excluded.decided_at`

	putDeferral = `INSERT OR REPLACE INTO notify_deferrals
			(event_id, user_id, turn, due_at, spent, digest_key, slot, event, next_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?4)`

	// A follow-up that was decided already, or waits, stays as it is.
	putFollowUp = `INSERT OR IGNORE INTO notify_deferrals (event_id, user_id, turn, due_at, digest_key, slot, event, next_at)
		SELECT ?1, ?2, 0, ?3, ?4, ?5, ?6, ?3 WHERE NOT EXISTS (SELECT 1 FROM notify_event_keys WHERE event_id = ?1)`

	deleteDeferral = `DELETE FROM notify_deferrals WHERE event_id = ?`

	postpone = `UPDATE notify_deferrals SET due_at = ?1, next_at = ?1 WHERE event_id = ?2 AND user_id = ?3`

	markKeys = `UPDATE notify_event_keys SET dispatched = 1
		WHERE outcome = 'NOW' AND event_id IN (SELECT unhex(value) FROM json_each(?))`

	// Of the events of ids, those whose dispatch is not marked.
	markExpired = `UPDATE notify_decisions SET delivery_status = 'DELIVERY_FAILED', delivery_error = '` + notify.ErrorExpired + `'
		WHERE delivery_status = 'PENDING' AND decision_id IN (SELECT decision_id FROM notify_event_keys
			WHERE outcome = 'NOW' AND NOT dispatched AND event_id IN (SELECT unhex(value) FROM json_each(?)))`

	deleteMarked = `DELETE FROM notify_deferrals WHERE event_id IN (
		SELECT event_id FROM notify_event_keys
		WHERE outcome = 'NOW' AND event_id IN (SELECT unhex(value) FROM json_each(?)))`
)

// Commit implements [notify.Ledger]. All changes are written in one transaction but
// each has its own answer, unless the transaction itself fails.
func (l *Ledger) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	answers := make([]error, len(changes))
	writes := make([]*write, 0, len(changes))
	at := make([]int, 0, len(changes))
	for i := range changes {
		w, err := encode(&changes[i])
		if answers[i] = err; err == nil {
			writes, at = append(writes, w), append(at, i)
		}
	}
	written, err := l.commit(ctx, writes, marks)
	for i, answer := range written {
		answers[at[i]] = answer
	}
	if len(marks) > 0 && err != nil {
		answers = append(answers, err)
	}
	return answers
}

// commit writes what one transaction takes. SQLite rejects a row of one change for
// good and undoes all: then each change is written alone. The error is that of the
// marks.
func (l *Ledger) commit(ctx context.Context, writes []*write, marks []notify.DispatchMark) (answers []error, err error) {
	answers = make([]error, len(writes))
	if len(writes)+len(marks) == 0 {
		return answers, ctx.Err()
	}
	b := batch{writes: writes, marks: marks, answers: make([]error, len(writes))}
	err = l.Write(ctx, b.run)
	switch {
	case err == nil:
		return b.answers, nil
	case engine.KindOf(err) == engine.Permanent && len(writes) > 1:
		for i, w := range writes {
			alone, _ := l.commit(ctx, []*write{w}, nil)
			answers[i] = alone[0]
		}
		_, err = l.commit(ctx, nil, marks)
	default:
		// The function may be running still, so its answers are not looked at.
		for i := range answers {
			answers[i] = err
		}
	}
	return answers, err
}

// write is a change in its stored form.
type write struct {
	change *notify.Change
	user   []any   // of putUser; nil: the user stays as it is
	rows   [][]any // of putDecision, by Decided
	events []any   // by Decided: the stored event
}

// batch is one transaction.
type batch struct {
	writes  []*write
	marks   []notify.DispatchMark
	answers []error

	versions map[string]int64
	keys     map[uuid.UUID]notify.Known
}

// run writes the changes that may be written, and then the marks.
func (b *batch) run(tx *sqlfile.Tx) error {
	if err := errors.Join(b.loadVersions(tx), b.loadKeys(tx)); err != nil {
		return err
	}
	for i, w := range b.writes {
		c := w.change
		name := ledger.Name(c)
		b.answers[i] = ledger.Check(c, b.versions[name], func(event uuid.UUID) notify.Known { return b.keys[event] })
		if _, erased := b.versions[notify.Tombstone(c.User)]; erased && name == c.User && len(c.Decided) > 0 && b.answers[i] == nil {
			b.answers[i] = engine.ErrConflict
		}
		if b.answers[i] != nil {
			continue
		}
		if err := w.put(tx); err != nil {
			return err
		}
		for j := range c.Decided {
			key := ledger.Key(&c.Decided[j].Record)
			key.User = name
			b.keys[key.EventID] = key
		}
	}
	return b.mark(tx)
}

func (b *batch) loadVersions(tx *sqlfile.Tx) error {
	users := make([]string, 0, 2*len(b.writes))
	for _, w := range b.writes {
		users = append(users, w.change.User, notify.Tombstone(w.change.User))
	}
	b.versions = make(map[string]int64, len(users)) // of those that are stored, by their names
	_, err := sqlfile.Select(tx, func(rows *sql.Rows) (_ struct{}, err error) {
		var user string
		var version int64
		err = rows.Scan(&user, &version)
		b.versions[user] = version
		return
	}, loadVersions, jsonTexts(users))
	return err
}

func (b *batch) loadKeys(tx *sqlfile.Tx) error {
	var events []uuid.UUID
	for _, w := range b.writes {
		for i := range w.change.Decided {
			events = append(events, w.change.Decided[i].Record.EventID)
		}
	}
	keys, err := sqlfile.Select(tx, scanKey, loadKeys, hexIDs(events))
	b.keys = make(map[uuid.UUID]notify.Known, len(keys))
	for _, key := range keys {
		b.keys[key.EventID] = key
	}
	return err
}

func (b *batch) mark(tx *sqlfile.Tx) error {
	if len(b.marks) == 0 {
		return nil
	}
	marked, expired := ledger.Split(b.marks)
	if len(expired) > 0 {
		if _, err := tx.Exec(markExpired, hexIDs(expired)); err != nil {
			return err
		}
	}
	events := hexIDs(append(marked, expired...))
	if _, err := tx.Exec(markKeys, events); err != nil {
		return err
	}
	_, err := tx.Exec(deleteMarked, events)
	return err
}

// put writes the change.
func (w *write) put(tx *sqlfile.Tx) error {
	if w.user != nil {
		if _, err := tx.Exec(putUser, w.user...); err != nil {
			return err
		}
	}
	for i := range w.rows {
		if err := w.putTurn(tx, i); err != nil {
			return err
		}
	}
	for _, f := range w.change.FollowUps {
		if _, err := tx.Exec(putFollowUp, f.Event.ID[:], w.change.User, int64(f.DueAt), text(f.DigestKey), millis(f.Slot), string(f.Event.Body)); err != nil {
			return err
		}
	}
	for _, p := range w.change.Postponed {
		if _, err := tx.Exec(postpone, int64(p.DueAt), p.EventID[:], w.change.User); err != nil {
			return err
		}
	}
	return nil
}

// putTurn writes one decision: the key, the record, and what it means for the
// event's deferral.
func (w *write) putTurn(tx *sqlfile.Tx, i int) error {
	r := &w.change.Decided[i].Record
	_, err := tx.Exec(putKey, r.EventID[:], ledger.Name(w.change), r.Turn, r.DecisionID[:], blob(r.DigestID),
		r.Outcome.String(), int64(r.DecidedAt))
	if err != nil {
		return err
	}
	if _, err := tx.Exec(putDecision, w.rows[i]...); err != nil {
		return err
	}
	switch {
	case r.Outcome == notify.Later:
		_, err = tx.Exec(putDeferral, r.EventID[:], r.UserID, r.Turn+1, int64(r.DeferUntil), blobs(r.Spent),
			text(r.DigestKey), millis(r.Slot), w.events[i])
	case r.Outcome == notify.Never && (r.Turn > 0 || r.Facts.Step > 0):
		_, err = tx.Exec(deleteDeferral, r.EventID[:])
	}
	return err
}
