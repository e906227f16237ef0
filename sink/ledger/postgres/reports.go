package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

const (
	lockReported = `SELECT decision_id, event_id, digest_id, newest, outcome::text, erased,
		delivery_status::text, delivered_at, delivery_channel::text, delivery_error, opened_at, clicked_at, dismissed_at,
		coalesce(user_id, ''), event_type::text
		FROM notify_reported($1::uuid[], $2::uuid[])`

	putDeliveries = `SELECT notify_deliver($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::text[],
		$6::timestamptz[], $7::timestamptz[], $8::timestamptz[])`

	// Sorted, so that two calls do not wait for each other in a circle. An update that changes
	// nothing locks the row.
	lockResponses = `INSERT INTO notify_responses AS r (user_id, responses)
		SELECT u.id, '{"at":0}' FROM unnest($1::text[]) AS u (id) ORDER BY u.id COLLATE "C"
		ON CONFLICT (user_id) DO UPDATE SET user_id = excluded.user_id RETURNING r.user_id, r.responses::text`

	putResponses = `UPDATE notify_responses r SET responses = n.responses::json
		FROM unnest($1::text[], $2::text[]) AS n (id, responses) WHERE r.user_id = n.id`

	countUnreported = `SELECT notify_unreported($1, $2)`
)

// Apply implements [notify.Reports], in one transaction: it locks the decisions in their
// order, and writes those that change. Where a row is refused, each report is applied
// alone.
func (l *Ledger) Apply(ctx context.Context, reports []notify.Report) []error {
	if len(reports) == 0 {
		return nil
	}
	bounded, cancel := l.bounded(ctx)
	defer cancel()
	var answers []error
	err := l.transaction(bounded, "apply delivery reports", func(tx pgx.Tx) error {
		decisions, events := ledger.NamedBy(reports)
		rows, err := tx.Query(bounded, lockReported, texts(decisions), texts(events))
		if err != nil {
			return err
		}
		named, err := pgx.CollectRows(rows, scanReported)
		if err != nil {
			return err
		}
		all, changed := ledger.Report(reports, named)
		if answers = all; len(changed) == 0 {
			return nil
		}
		if _, err = tx.Exec(bounded, putDeliveries, deliveriesOf(changed)...); err != nil {
			return err
		}
		return respond(bounded, tx, changed)
	})
	switch {
	case err == nil:
		return answers
	case engine.KindOf(err) == engine.Permanent && len(reports) > 1:
		answers = nil
		for i := range reports {
			answers = append(answers, l.Apply(ctx, reports[i:i+1])...)
		}
		return answers
	default:
		return fill(make([]error, len(reports)), err)
	}
}

// deliveriesOf returns the arguments of notify_deliver.
func deliveriesOf(all []*ledger.Reported) []any {
	var ids []uuid.UUID
	var statuses []string
	var at []*time.Time
	var channels, faults []*string
	var opened, clicked, dismissed []*time.Time
	for _, d := range all {
		x := &d.Delivery
		ids, statuses, at = append(ids, d.Decision), append(statuses, x.Status.String()), append(at, timeOrNull(x.At))
		channels, faults = append(channels, orNull(x.Channel.String())), append(faults, orNull(x.Error))
		opened, clicked, dismissed = append(opened, timeOrNull(x.Opened)), append(clicked, timeOrNull(x.Clicked)), append(dismissed, timeOrNull(x.Dismissed))
	}
	return []any{texts(ids), statuses, at, channels, faults, opened, clicked, dismissed}
}

// respond takes changed deliveries into the responses of their users, which it locks.
func respond(ctx context.Context, tx pgx.Tx, changed []*ledger.Reported) error {
	users := ledger.Responding(changed)
	if len(users) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, lockResponses, users)
	if err != nil {
		return err
	}
	responses := make(map[string]*notify.Responses, len(users))
	var user string
	var text []byte
	if _, err = pgx.ForEachRow(rows, []any{&user, &text}, func() (err error) {
		responses[user], err = decode.Responses(text)
		return err
	}); err != nil {
		return err
	}
	ledger.Respond(changed, responses)
	texts := make([]string, len(users))
	for i, user := range users {
		text, err := json.Marshal(responses[user])
		if err != nil {
			return err
		}
		texts[i] = string(text)
	}
	_, err = tx.Exec(ctx, putResponses, users, texts)
	return err
}

func scanReported(row pgx.CollectableRow) (d ledger.Reported, err error) {
	var outcome, kind string
	var stored delivery
	columns := append([]any{&d.Decision, &d.Event, &d.Digest, &d.Newest, &outcome, &d.Erased}, stored.columns()...)
	err = row.Scan(append(columns, &d.User, &kind)...)
	d.Outcome, d.Delivery, d.Type = notify.ParseOutcome(outcome), stored.value(), notify.ParseEventType(kind)
	return d, err
}

// delivery is a delivery in its columns: delivery_status, delivered_at, delivery_channel,
// delivery_error, opened_at, clicked_at and dismissed_at.
type delivery struct {
	status, channel, text          *string
	at, opened, clicked, dismissed *time.Time
}

func (d *delivery) columns() []any {
	return []any{&d.status, &d.at, &d.channel, &d.text, &d.opened, &d.clicked, &d.dismissed}
}

func (d *delivery) value() notify.Delivery {
	return notify.Delivery{
		Status: notify.ParseStatus(textOf(d.status)), Channel: notify.ParseChannel(textOf(d.channel)),
		At: millisOf(d.at), Error: textOf(d.text),
		Opened: millisOf(d.opened), Clicked: millisOf(d.clicked), Dismissed: millisOf(d.dismissed),
	}
}

// Unreported returns of how many NOWs decided before an instant the delivery is not
// reported, at most [ledger.MaxUnreported]. Those of erased users do not count.
func (l *Ledger) Unreported(ctx context.Context, before engine.Millis) (n int64, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	err = l.pool.QueryRow(ctx, countUnreported, before.Time(), ledger.MaxUnreported).Scan(&n)
	return n, mark(ctx, "unreported", err)
}
