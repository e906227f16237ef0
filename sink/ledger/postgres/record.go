package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine/notify"
)

const decisionColumns = `d.decision_id, d.event_id, d.user_id, d.seq, d.event_type::text, d.source, d.print, d.outcome::text,
	d.reasons, d.matched_rule_id, d.rule_version, d.defer_count, d.decided_at, d.defer_until, d.spent::text[], d.digest_key,
	d.slot, d.digest_id, d.duplicate_of, d.channels::text[], d.score, d.event::text, d.facts::text,
	d.delivery_status::text, d.delivered_at, d.delivery_channel::text, d.delivery_error,
	d.opened_at, d.clicked_at, d.dismissed_at`

// scanDecision reads a row of decisionColumns.
func scanDecision(row pgx.CollectableRow) (d notify.Decided, err error) {
	var (
		r                   = &d.Record
		user, key           *string
		kind, outcome       string
		decidedAt           time.Time
		deferUntil, slot    *time.Time
		stored              delivery
		spent, channels     []string
		score               *float64
		print, event, facts []byte
	)
	err = row.Scan(append([]any{
		&r.DecisionID, &r.EventID, &user, &r.Seq, &kind, &r.Source, &print, &outcome,
		&r.Reasons, &r.RuleID, &r.RuleVersion, &r.Turn, &decidedAt, &deferUntil, &spent, &key,
		&slot, &r.DigestID, &r.DuplicateOf, &channels, &score, &event, &facts,
	}, stored.columns()...)...)
	if err != nil {
		return d, err
	}
	r.UserID, r.DigestKey = textOf(user), textOf(key)
	r.Type, r.Outcome = notify.ParseEventType(kind), notify.ParseOutcome(outcome)
	r.DecidedAt, r.DeferUntil, r.Slot = millisOf(&decidedAt), millisOf(deferUntil), millisOf(slot)
	d.Delivery = stored.value()
	for _, name := range channels {
		r.Channels = append(r.Channels, notify.ParseChannel(name))
	}
	if score != nil {
		r.Scored, r.Score = true, *score
	}
	if r.Print, err = decode.Print(print); err != nil {
		return d, err
	}
	if r.Spent, err = decodeIDs(spent); err != nil {
		return d, err
	}
	if err = decode.JSON(facts, &r.Facts); err != nil {
		return d, err
	}
	d.Event, err = decode.Event(r.UserID, event)
	return d, err
}

// scanKey reads event_id, user_id, turn, decision_id, digest_id, outcome, dispatched
// and decided_at.
func scanKey(row pgx.CollectableRow) (k notify.Known, err error) {
	var outcome string
	var at time.Time
	err = row.Scan(&k.EventID, &k.User, &k.Turn, &k.DecisionID, &k.DigestID, &outcome, &k.Dispatched, &at)
	k.Outcome, k.DecidedAt = notify.ParseOutcome(outcome), millisOf(&at)
	return k, err
}
