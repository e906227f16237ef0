package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// ShadowPair counts decisions by what they were and what the candidate would have decided.
type ShadowPair struct {
	Was, Would notify.Outcome
	Differ     int64 // in outcome, reasons, channels or time
	Decisions  int64
}

// ShadowSample is a decision that differs.
type ShadowSample struct {
	Set          string // the set in force, as the record names it
	Decision     uuid.UUID
	Was, Would   notify.Outcome
	WasReasons   []string
	WouldReasons []string
	DecidedAt    engine.Millis
}

// ShadowReport is what the decisions by a candidate came to.
type ShadowReport struct {
	Version int64 // of the candidate; 0: there was none
	On      bool  // workers decide by it
	Pairs   []ShadowPair
	Samples []ShadowSample // newest first
}

// mostSamples bounds the table of samples.
const mostSamples = 1000

const (
	setShadow = `UPDATE notify_active SET shadow = $1::json, shadow_version = nextval('notify_shadow_version') RETURNING shadow_version`

	endShadow = `UPDATE notify_active SET shadow = NULL, shadow_version = NULL`

	// The order is the same in all workers, so that they wait for each other in turn.
	countShadow = `INSERT INTO notify_shadow_counts AS c (shadow_version, was, would, differ, decisions)
		SELECT $1, n.was::notify_outcome, n.would::notify_outcome, n.differ, n.decisions
		FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) n(was, would, differ, decisions) ORDER BY n.was, n.would
		ON CONFLICT (shadow_version, was, would) DO UPDATE SET differ = c.differ + excluded.differ, decisions = c.decisions + excluded.decisions`

	sampleShadow = `INSERT INTO notify_shadow (shadow_version, set_version, decision_id, was, was_reasons, would, would_reasons, decided_at)
		SELECT $1, n.set, n.decision::uuid, n.was::notify_outcome, n.was_reasons::text[], n.would::notify_outcome, n.would_reasons::text[], n.at
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
			n(set, decision, was, was_reasons, would, would_reasons, at)`

	pruneShadow = `DELETE FROM notify_shadow WHERE id <= (SELECT max(id) FROM notify_shadow) - $1`
)

// SetShadow makes a document the candidate by which workers decide a second time, and
// returns its number. What is known of candidates before it is deleted.
func (l *Ledger) SetShadow(ctx context.Context, document []byte) (version int64, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	err = l.transaction(ctx, "set the candidate", func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, setShadow, string(document)).Scan(&version)
		if errors.Is(err, pgx.ErrNoRows) {
			return engine.ConfigurationError(ReasonNotSetUp, &NotActiveError{})
		}
		for _, table := range []string{"notify_shadow", "notify_shadow_counts"} {
			if err == nil {
				_, err = tx.Exec(ctx, "DELETE FROM "+table)
			}
		}
		return err
	})
	return version, err
}

// EndShadow ends the decisions by a candidate. What is known of them stays.
func (l *Ledger) EndShadow(ctx context.Context) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.pool.Exec(ctx, endShadow)
	return mark(ctx, "end the candidate", err)
}

// Shadow reads the document of a candidate. The error is [ErrNoSet] where it is another
// one by now.
func (l *Ledger) Shadow(ctx context.Context, version int64) (document []byte, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	err = l.pool.QueryRow(ctx, "SELECT shadow::text FROM notify_active WHERE shadow_version = $1", version).Scan(&document)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoSet
	}
	return document, mark(ctx, "read the candidate", err)
}

// NoteShadow adds to what is known of a candidate's decisions.
func (l *Ledger) NoteShadow(ctx context.Context, version int64, pairs []ShadowPair, samples []ShadowSample) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	was, would, differ, decisions := []string{}, []string{}, []int64{}, []int64{}
	for _, p := range pairs {
		was, would = append(was, p.Was.String()), append(would, p.Would.String())
		differ, decisions = append(differ, p.Differ), append(decisions, p.Decisions)
	}
	return l.transaction(ctx, "note decisions by the candidate", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, countShadow, version, was, would, differ, decisions); err != nil || len(samples) == 0 {
			return err
		}
		var sets, ids, was, wasReasons, would, wouldReasons []string
		var at []time.Time
		for i := range samples {
			s := &samples[i]
			sets, ids, at = append(sets, s.Set), append(ids, s.Decision.String()), append(at, s.DecidedAt.Time())
			was, wasReasons = append(was, s.Was.String()), append(wasReasons, textArray(s.WasReasons))
			would, wouldReasons = append(would, s.Would.String()), append(wouldReasons, textArray(s.WouldReasons))
		}
		if _, err := tx.Exec(ctx, sampleShadow, version, sets, ids, was, wasReasons, would, wouldReasons, at); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, pruneShadow, mostSamples)
		return err
	})
}

// ShadowReport reads what the decisions by the candidate, or by the last one, came to, with
// at most n samples.
func (l *Ledger) ShadowReport(ctx context.Context, n int) (r ShadowReport, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	const doing = "read decisions by the candidate"
	err = l.pool.QueryRow(ctx, `SELECT coalesce(max(a.shadow_version), (SELECT max(shadow_version) FROM notify_shadow_counts), 0),
		max(a.shadow_version) IS NOT NULL FROM notify_active a`).Scan(&r.Version, &r.On)
	if err != nil {
		return r, mark(ctx, doing, err)
	}
	rows, err := l.pool.Query(ctx, `SELECT was::text, would::text, differ, decisions FROM notify_shadow_counts
		WHERE shadow_version = $1 ORDER BY notify_shadow_counts.was, notify_shadow_counts.would`, r.Version)
	if err == nil {
		r.Pairs, err = pgx.CollectRows(rows, scanPair)
	}
	if err != nil {
		return r, mark(ctx, doing, err)
	}
	rows, err = l.pool.Query(ctx, `SELECT set_version, decision_id, was::text, was_reasons, would::text, would_reasons, decided_at
		FROM notify_shadow WHERE shadow_version = $1 ORDER BY id DESC LIMIT $2`, r.Version, n)
	if err == nil {
		r.Samples, err = pgx.CollectRows(rows, scanSample)
	}
	return r, mark(ctx, doing, err)
}

func scanPair(row pgx.CollectableRow) (p ShadowPair, err error) {
	var was, would string
	err = row.Scan(&was, &would, &p.Differ, &p.Decisions)
	p.Was, p.Would = notify.ParseOutcome(was), notify.ParseOutcome(would)
	return p, err
}

func scanSample(row pgx.CollectableRow) (s ShadowSample, err error) {
	var was, would string
	var at time.Time
	err = row.Scan(&s.Set, &s.Decision, &was, &s.WasReasons, &would, &s.WouldReasons, &at)
	s.Was, s.Would, s.DecidedAt = notify.ParseOutcome(was), notify.ParseOutcome(would), millisOf(&at)
	return s, err
}
