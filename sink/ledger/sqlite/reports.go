package sqlite

import (
	"context"
	"database/sql"
	"slices"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

const (
	// The decisions of ids, those of the events of ids, and those of the digests of ids.
	reportedDecisions = `SELECT d.decision_id, d.event_id, d.digest_id, coalesce(k.decision_id = d.decision_id, 0), d.outcome,
			d.user_id IS NULL, d.delivery_status, d.delivered_at, d.delivery_channel, d.delivery_error,
			d.opened_at, d.clicked_at, d.dismissed_at, coalesce(d.user_id, ''), d.event_type
		FROM notify_decisions d LEFT JOIN notify_event_keys k ON k.event_id = d.event_id
		WHERE d.decision_id IN (
			SELECT unhex(value) FROM json_each(?1)
			UNION SELECT decision_id FROM notify_event_keys WHERE event_id IN (SELECT unhex(value) FROM json_each(?2))
			UNION SELECT decision_id FROM notify_event_keys WHERE digest_id IN (SELECT unhex(value) FROM json_each(?2)))`

	putDelivery = `UPDATE notify_decisions SET delivery_status = ?, delivered_at = ?, delivery_channel = ?, delivery_error = ?,
			opened_at = ?, clicked_at = ?, dismissed_at = ?
		WHERE decision_id = ?`

	responsesOf = `SELECT user_id, responses FROM notify_responses WHERE user_id IN (SELECT value FROM json_each(?))`

	putResponses = `INSERT OR REPLACE INTO notify_responses (user_id, responses) VALUES (?, ?)`

	countUnreported = `SELECT count(*) FROM (
		SELECT 1 FROM notify_decisions WHERE delivery_status = 'PENDING' AND decided_at < ? AND user_id IS NOT NULL LIMIT ?)`
)

// Apply implements [notify.Reports], in one transaction.
func (l *Ledger) Apply(ctx context.Context, reports []notify.Report) []error {
	if len(reports) == 0 {
		return nil
	}
	var answers []error
	err := l.Write(ctx, func(tx *sqlfile.Tx) error {
		decisions, events := ledger.NamedBy(reports)
		named, err := sqlfile.Select(tx, scanReported, reportedDecisions, hexIDs(decisions), hexIDs(events))
		if err != nil {
			return err
		}
		all, changed := ledger.Report(reports, named)
		for _, d := range changed {
			x := &d.Delivery
			if _, err := tx.Exec(putDelivery, x.Status.String(), millis(x.At), text(x.Channel.String()), text(x.Error),
				millis(x.Opened), millis(x.Clicked), millis(x.Dismissed), d.Decision[:]); err != nil {
				return err
			}
		}
		answers = all
		return respond(tx, changed)
	})
	if err != nil { // the function may be running still
		return slices.Repeat([]error{err}, len(reports))
	}
	return answers
}

// respond takes changed deliveries into the responses of their users.
func respond(tx *sqlfile.Tx, changed []*ledger.Reported) error {
	users := ledger.Responding(changed)
	if len(users) == 0 {
		return nil
	}
	responses, err := readResponses(tx, users)
	if err != nil {
		return err
	}
	for _, user := range users {
		if responses[user] == nil {
			responses[user] = &notify.Responses{}
		}
	}
	ledger.Respond(changed, responses)
	for _, user := range users {
		text, err := encodeJSON(responses[user])
		if err != nil {
			return err
		}
		if _, err := tx.Exec(putResponses, user, text); err != nil {
			return err
		}
	}
	return nil
}

// readResponses reads the responses of users, of those that have some.
func readResponses(tx *sqlfile.Tx, users []string) (map[string]*notify.Responses, error) {
	responses := make(map[string]*notify.Responses, len(users))
	_, err := sqlfile.Select(tx, func(rows *sql.Rows) (_ struct{}, err error) {
		var user string
		var text sql.RawBytes
		if err = rows.Scan(&user, &text); err == nil {
			responses[user], err = decode.Responses(text)
		}
		return
	}, responsesOf, jsonTexts(users))
	return responses, err
}

func scanReported(rows *sql.Rows) (d ledger.Reported, err error) {
	var outcome, kind string
	var stored delivery
	columns := append([]any{&d.Decision, &d.Event, &d.Digest, &d.Newest, &outcome, &d.Erased}, stored.columns()...)
	err = rows.Scan(append(columns, &d.User, &kind)...)
	d.Outcome, d.Delivery, d.Type = notify.ParseOutcome(outcome), stored.value(), notify.ParseEventType(kind)
	return d, err
}

// delivery is a delivery in its columns: delivery_status, delivered_at, delivery_channel,
// delivery_error, opened_at, clicked_at and dismissed_at.
type delivery struct {
	status, channel, text          sql.NullString
	at, opened, clicked, dismissed sql.NullInt64
}

func (d *delivery) columns() []any {
	return []any{&d.status, &d.at, &d.channel, &d.text, &d.opened, &d.clicked, &d.dismissed}
}

func (d *delivery) value() notify.Delivery {
	return notify.Delivery{
		Status: notify.ParseStatus(d.status.String), Channel: notify.ParseChannel(d.channel.String),
		At: engine.Millis(d.at.Int64), Error: d.text.String,
		Opened: engine.Millis(d.opened.Int64), Clicked: engine.Millis(d.clicked.Int64), Dismissed: engine.Millis(d.dismissed.Int64),
	}
}

// Unreported returns of how many NOWs decided before an instant the delivery is not
// reported, at most [ledger.MaxUnreported]. Those of erased users do not count.
func (r *Reader) Unreported(ctx context.Context, before engine.Millis) (int64, error) {
	all, err := sqlfile.Collect(ctx, r.Reader, func(rows *sql.Rows) (n int64, err error) {
		err = rows.Scan(&n)
		return n, err
	}, countUnreported, int64(before), ledger.MaxUnreported)
	if err != nil {
		return 0, err
	}
	return all[0], nil
}
