package sqlite

import (
	"bytes"
	"database/sql"
	"strings"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

const (
	decisionColumns = `decision_id, event_id, user_id, seq, event_type, source, print, outcome, reasons,
		matched_rule_id, rule_version, turn, decided_at, defer_until, spent, digest_key, slot, digest_id,
		duplicate_of, channels, score, event, facts, delivery_status, delivered_at, delivery_channel, delivery_error,
		opened_at, clicked_at, dismissed_at`

	putDecision = `INSERT INTO notify_decisions (` + decisionColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, NULL, NULL)`
)

// encode returns the stored form of a change.
func encode(c *notify.Change) (*write, error) {
	w := &write{change: c, rows: make([][]any, len(c.Decided)), events: make([]any, len(c.Decided))}
	if len(c.Decided) == 0 {
		return w, nil
	}
	var erasedAt any
	if c.State.Erased {
		erasedAt = int64(c.State.DecidedAt)
	}
	w.user = []any{ledger.Name(c), c.Version + int64(len(c.Decided)), c.State.Append(nil), int64(c.State.DecidedAt), erasedAt}
	for i := range c.Decided {
		var err error
		w.events[i] = string(c.Decided[i].Event.Body)
		if w.rows[i], err = encodeRecord(&c.Decided[i].Record, w.events[i], c.State.Erased); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// encodeRecord returns the values of putDecision. Of an erased user those that
// tell of it are NULL.
func encodeRecord(r *notify.Record, event any, erased bool) (row []any, err error) {
	reasons, err := encodeJSON(r.Reasons)
	if err != nil {
		return nil, err
	}
	var user, print, key, facts any
	if erased {
		event = nil
	} else {
		user, print, key = r.UserID, r.Print.Append(nil), text(r.DigestKey)
		if facts, err = encodeJSON(&r.Facts); err != nil {
			return nil, err
		}
	}
	var score any
	if r.Scored {
		score = r.Score
	}
	return []any{
		r.DecisionID[:], r.EventID[:], user, r.Seq, r.Type.String(), r.Source, print, r.Outcome.String(), reasons,
		blob(r.RuleID), r.RuleVersion, r.Turn, int64(r.DecidedAt), millis(r.DeferUntil), blobs(r.Spent), key,
		millis(r.Slot), blob(r.DigestID), blob(r.DuplicateOf), text(encodeChannels(r.Channels)), score, event, facts,
		text(notify.StatusOf(r.Outcome).String()),
	}, nil
}

// scanDecision reads a row of decisionColumns.
func scanDecision(rows *sql.Rows) (d notify.Decided, err error) {
	var (
		r                                   = &d.Record
		user, key, channels                 sql.NullString
		deferUntil, slot                    sql.NullInt64
		stored                              delivery
		score                               sql.NullFloat64
		kind, outcome                       string
		print, reasons, spent, event, facts sql.RawBytes
	)
	err = rows.Scan(append([]any{
		&r.DecisionID, &r.EventID, &user, &r.Seq, &kind, &r.Source, &print, &outcome, &reasons,
		&r.RuleID, &r.RuleVersion, &r.Turn, &r.DecidedAt, &deferUntil, &spent, &key, &slot, &r.DigestID,
		&r.DuplicateOf, &channels, &score, &event, &facts,
	}, stored.columns()...)...)
	if err != nil {
		return d, err
	}
	r.UserID, r.DigestKey = user.String, key.String
	r.Type, r.Outcome = notify.ParseEventType(kind), notify.ParseOutcome(outcome)
	r.DeferUntil, r.Slot = engine.Millis(deferUntil.Int64), engine.Millis(slot.Int64)
	r.Channels, r.Scored, r.Score = decodeChannels(channels.String), score.Valid, score.Float64
	d.Delivery = stored.value()
	if r.Print, err = decode.Print(print); err != nil {
		return d, err
	}
	if r.Spent, err = idsOf(spent); err != nil {
		return d, err
	}
	if err = decode.JSON(reasons, &r.Reasons); err != nil {
		return d, err
	}
	if err = decode.JSON(facts, &r.Facts); err != nil {
		return d, err
	}
	d.Event, err = decode.Event(r.UserID, bytes.Clone(event))
	return d, err
}

// encodeChannels returns the names, joined by commas.
func encodeChannels(channels []notify.Channel) string {
	names := make([]string, len(channels))
	for i, c := range channels {
		names[i] = c.String()
	}
	return strings.Join(names, ",")
}

func decodeChannels(names string) (channels []notify.Channel) {
	if names == "" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		channels = append(channels, notify.ParseChannel(name))
	}
	return channels
}
