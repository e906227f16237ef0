package outbox

import (
	"context"
	"database/sql"
	"slices"

	"keyfold/engine"
)

// marks are what a batch writes of its rows.
type marks struct {
	sent     []Row
	untried  []Row // were noted as tried, and cannot have reached the broker
	failures []failure
	numbers  map[int]int64 // by shard: notes to clear
}

func (w *rounds) marks() marks { return marks{w.sent, w.untried(), w.failures, w.numbers} }

func (m *marks) none() bool {
	return len(m.sent)+len(m.untried)+len(m.failures)+len(m.numbers) == 0
}

// write marks rows. It may be run again.
func (d *Database) write(ctx context.Context, run runner, m marks) error {
	now := timeText(engine.Now())
	if err := changeRows(ctx, run, m.sent, "UPDATE user_interactions SET processed_to_queue = TRUE, sent_at = ?, failed_at = NULL WHERE ", now); err != nil {
		return err
	}
	if err := changeRows(ctx, run, m.untried, "UPDATE user_interactions SET tried_at = NULL WHERE "+notSent+" AND "); err != nil {
		return err
	}
	for _, f := range m.failures {
		failedAt := any(nil)
		if f.verdict == setAside {
			failedAt = now
		}
		if _, err := run.ExecContext(ctx, "UPDATE user_interactions SET attempts = ?, last_error = ?, failed_at = ?, processed_to_queue = FALSE "+
			"WHERE id = ? AND message_id = ? AND "+notSent, f.attempts, f.text(), failedAt, f.id, f.messageID); err != nil {
			return err
		}
	}
	return clearNotes(ctx, run, m.numbers)
}

// free locks the rows of the marks, and returns the marks of those that are there and
// that no other transaction has locked.
func (d *Database) free(ctx context.Context, tx *sql.Tx, m marks) (marks, error) {
	rows := slices.Concat(m.sent, m.untried)
	for _, f := range m.failures {
		rows = append(rows, Row{ID: f.id, messageID: f.messageID})
	}
	locked, err := d.lock(ctx, tx, rows)
	other := func(row Row) bool { _, got := locked[row.ID]; return !got }
	return marks{
		sent: slices.DeleteFunc(slices.Clone(m.sent), other), untried: slices.DeleteFunc(slices.Clone(m.untried), other),
		failures: slices.DeleteFunc(slices.Clone(m.failures), func(f failure) bool { return other(Row{ID: f.id}) }),
	}, err
}

// lock locks those of the rows that are there and that no other transaction has locked.
// It returns their ids, and which of them were tried.
func (d *Database) lock(ctx context.Context, tx *sql.Tx, rows []Row) (tried map[int64]bool, err error) {
	tried = map[int64]bool{}
	for rows := range slices.Chunk(rows, statementRows) {
		condition, args := among(rows)
		err := each(ctx, tx, func(s scanner) error {
			var id int64
			var before bool
			err := s.Scan(&id, &before)
			tried[id] = before
			return err
		}, "SELECT id, tried_at IS NOT NULL FROM user_interactions"+d.words.byID+" WHERE "+condition+d.words.skipLocked, args...)
		if err != nil {
			return nil, err
		}
	}
	return tried, nil
}
