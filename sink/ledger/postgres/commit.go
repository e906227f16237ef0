package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// Commit implements [notify.Ledger], in one round trip but for rare faults and for marks
// of events that expired. Where a row of one change is refused, the call leaves nothing, and each change is written by a call of its own.
func (l *Ledger) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	all := make([]*notify.Change, len(changes))
	for i := range changes {
		all[i] = &changes[i]
	}
	marked, expired := ledger.Split(marks)
	answers, err := l.commitInOrder(ctx, all, marked)
	if err == nil {
		err = l.expire(ctx, expired)
	}
	if len(marks) > 0 && err != nil {
		answers = append(answers, err)
	}
	return answers
}

// expire marks events that expired before their dispatch. They are rare: a call of
// their own serves them.
func (l *Ledger) expire(ctx context.Context, events []uuid.UUID) error {
	if len(events) == 0 {
		return nil
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.pool.Exec(ctx, "SELECT notify_expire($1::uuid[])", texts(events))
	return mark(ctx, "mark expired dispatches", err)
}

// commitInOrder writes the changes up to the first one with an event of one before it
// (an event_id that two users' events have), and then the others: the later change is
// answered by what the former one stored.
func (l *Ledger) commitInOrder(ctx context.Context, changes []*notify.Change, marked []uuid.UUID) ([]error, error) {
	n := apart(changes)
	if n == len(changes) {
		return l.commit(ctx, changes, marked)
	}
	answers, _ := l.commit(ctx, changes[:n], nil)
	others, err := l.commitInOrder(ctx, changes[n:], marked)
	return append(answers, others...), err
}

// apart returns how many of the first changes have no event in common.
func apart(changes []*notify.Change) int {
	owner := map[uuid.UUID]int{}
	for i, c := range changes {
		for j := range c.Decided {
			event := c.Decided[j].Record.EventID
			if first, met := owner[event]; met && first != i {
				return i
			}
			owner[event] = i
		}
	}
	return len(changes)
}

// commit returns the changes' answers, and the error of the marks.
func (l *Ledger) commit(ctx context.Context, changes []*notify.Change, marked []uuid.UUID) ([]error, error) {
	answers := make([]error, len(changes))
	if len(changes)+len(marked) == 0 || ctx.Err() != nil {
		return fill(answers, ctx.Err()), ctx.Err()
	}
	written, keys, err := l.call(ctx, changes, marked)
	switch {
	case err == nil:
		for i, c := range changes {
			answers[i] = answerOf(c, written, keys)
		}
		return answers, nil
	case len(changes) > 1 && ofOneChange(err):
		for i := range changes {
			alone, _ := l.commit(ctx, changes[i:i+1], nil)
			answers[i] = alone[0]
		}
		_, err = l.commit(ctx, nil, marked)
		return answers, err
	case len(changes) == 1 && codeOf(err) == codeLocked: // others are written
		_, errOfMarks := l.commit(ctx, nil, marked)
		return fill(answers, fmt.Errorf("%w: user %q: %w", engine.ErrOwn, changes[0].User, err)), errOfMarks
	case len(changes) > 0 && raced(err):
		err = fmt.Errorf("%w: %w", engine.ErrConflict, err)
	}
	return fill(answers, err), err
}

func fill(answers []error, err error) []error {
	for i := range answers {
		answers[i] = err
	}
	return answers
}

// ofOneChange reports whether an error is of some rows, so that others may be written:
// one is refused, has no partition, was decided meanwhile, is of a user who was erased
// meanwhile, or is locked for long.
func ofOneChange(err error) bool {
	code := codeOf(err)
	return engine.KindOf(err) == engine.Permanent || engine.ReasonOf(err) == ReasonPartition || code == codeRaced || code == codeErased || code == codeLocked
}

// raced reports whether another call wrote first. Nothing was written by this one, and
// the users are to be read again.
func raced(err error) bool {
	return slices.Contains([]string{codeRaced, codeErased, codeSerialization, codeDeadlock}, codeOf(err))
}

// answerOf returns the answer of a change: from the names of users that were written, and the
// keys that the call has found.
func answerOf(c *notify.Change, written map[string]bool, keys map[uuid.UUID]notify.Known) error {
	if written[ledger.Name(c)] {
		return nil
	}
	return ledger.Check(c, c.Version-1, func(event uuid.UUID) notify.Known { return keys[event] })
}

// call calls notify_commit.
func (l *Ledger) call(ctx context.Context, changes []*notify.Change, marked []uuid.UUID) (map[string]bool, map[uuid.UUID]notify.Known, error) {
	const doing = "commit"
	a := &arguments{marked: marked}
	for _, c := range changes {
		if err := a.add(c); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, mark(ctx, doing, err)
	}
	defer conn.Release()
	known := conn.Conn().TypeMap()
	p, err := a.binary(known)
	if err != nil {
		return nil, nil, mark(ctx, doing, err)
	}
	answer := conn.Conn().PgConn().ExecParams(ctx, commitStatement, p.values, p.types, p.formats, nil)
	written, keys := map[string]bool{}, map[uuid.UUID]notify.Known{}
	var row answerRow
	_, err = pgx.ForEachRow(pgx.RowsFromResultReader(known, answer), row.fields(), func() error {
		if row.written != nil {
			written[*row.written] = true
		} else {
			k := row.key()
			keys[k.EventID] = k
		}
		row.known = notify.Known{} // a NULL leaves an id as it is
		return nil
	})
	switch {
	case err == nil:
		return written, keys, nil
	case unknown(err):
		return nil, nil, fmt.Errorf("PostgreSQL: %s: %w: %w: %w", doing, engine.ErrUnknown, engine.ErrAway, errors.Join(err, ctx.Err()))
	default:
		return nil, nil, mark(ctx, doing, err)
	}
}

// answerRow is a row of notify_commit: a user whose change was written, or a key.
type answerRow struct {
	written    *string
	known      notify.Known
	user       *string
	turn       *int
	outcome    *string
	dispatched *bool
	at         *time.Time
}

func (r *answerRow) fields() []any {
	return []any{
		&r.written, &r.known.EventID, &r.user, &r.turn, &r.known.DecisionID, &r.known.DigestID,
		&r.outcome, &r.dispatched, &r.at,
	}
}

func (r *answerRow) key() notify.Known {
	k := r.known
	k.User, k.Turn, k.Outcome = *r.user, *r.turn, notify.ParseOutcome(*r.outcome)
	k.Dispatched, k.DecidedAt = *r.dispatched, millisOf(r.at)
	return k
}
