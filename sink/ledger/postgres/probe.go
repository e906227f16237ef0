package postgres

import (
	"context"
	"strings"
	"time"

	"keyfold/engine"
)

// probeStatement writes where a commit writes. The parser refuses the event_id of the
// key, so it is of no event; each call replaces the key of the call before it. The
// record is taken back once a partition has taken it, so that it is not counted.
const probeStatement = `DO $$ BEGIN
	PERFORM 'notify_commit'::regproc;
	INSERT INTO notify_event_keys AS k (event_id, user_id, turn, decision_id, outcome, dispatched, decided_at)
		VALUES ('00000000-0000-0000-0000-000000000000', '', 0, '00000000-0000-0000-0000-000000000000', 'NEVER', true, now())
		ON CONFLICT (event_id) DO UPDATE SET decided_at = excluded.decided_at;
	BEGIN
		INSERT INTO notify_decisions (decision_id, event_id, seq, event_type, source, outcome, reasons, rule_version,
				defer_count, decided_at, ai_used)
			VALUES ('00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', 0, 'SYSTEM', '', 'NEVER', '{}', '',
				0, '%now%', false);
		RAISE EXCEPTION USING ERRCODE = 'KF002';
	EXCEPTION WHEN SQLSTATE 'KF002' THEN
	END;
END $$`

// Probe does one write as durable as a commit, in the same tables. It returns nil
// where a commit would be written now: the server takes writes, the schema is there,
// and so is the partition of today (UTC, by this process's clock).
func (l *Ledger) Probe(ctx context.Context) error { return l.probe(ctx, engine.Now()) }

func (l *Ledger) probe(ctx context.Context, now engine.Millis) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	_, err := l.pool.Exec(ctx, strings.Replace(probeStatement, "%now%", now.Time().Format(time.RFC3339Nano), 1))
	return mark(ctx, "probe", err)
}

// Clock returns the server's time.
func (l *Ledger) Clock(ctx context.Context) (engine.Millis, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var now time.Time
	err := l.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return millisOf(&now), mark(ctx, "read the clock", err)
}
