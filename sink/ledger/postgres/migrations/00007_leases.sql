-- +goose Up

-- No index has the end of a lease: a claim writes a row's new version beside the old one,
-- and no index. Pages keep room for it.
DROP INDEX notify_deferrals_next;
CREATE INDEX notify_deferrals_due ON notify_deferrals (due_at, event_id) INCLUDE (event_type);
ALTER TABLE notify_deferrals SET (fillfactor = 70);

-- Leases at most about n deferrals that are due, oldest first, and with one of a digest
-- the others of its user and key that have the same time. Claims run side by side and
-- wait for nothing: what another call has locked is left out, and so is a digest of
-- which another call has locked an item, so that each is claimed whole.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION notify_claim(at timestamptz, lease_end timestamptz, n int) RETURNS SETOF notify_deferrals LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '2s' AS $$
BEGIN
	-- A deferral that is leased was due: next_at is never below due_at.
	RETURN QUERY WITH oldest AS (
			SELECT w.event_id, w.user_id, w.digest_key, w.due_at FROM notify_deferrals w
			WHERE w.due_at <= at AND w.next_at <= at ORDER BY w.due_at, w.event_id LIMIT n FOR UPDATE SKIP LOCKED
		), digests AS (
			SELECT DISTINCT o.user_id, o.digest_key, o.due_at FROM oldest o WHERE o.digest_key IS NOT NULL
		), items AS (
			SELECT w.event_id, w.user_id, w.digest_key, w.due_at FROM digests d
			JOIN notify_deferrals w ON w.user_id = d.user_id AND w.digest_key = d.digest_key AND w.due_at = d.due_at
			WHERE w.next_at <= at FOR UPDATE OF w SKIP LOCKED
		), whole AS (
			SELECT i.user_id, i.digest_key, i.due_at FROM items i GROUP BY i.user_id, i.digest_key, i.due_at
			HAVING count(*) = (SELECT count(*) FROM notify_deferrals w
				WHERE w.user_id = i.user_id AND w.digest_key = i.digest_key AND w.due_at = i.due_at AND w.next_at <= at)
		)
		UPDATE notify_deferrals w SET next_at = lease_end
		WHERE w.event_id IN (
			SELECT o.event_id FROM oldest o WHERE o.digest_key IS NULL
			UNION ALL SELECT i.event_id FROM items i JOIN whole g
				ON g.user_id = i.user_id AND g.digest_key = i.digest_key AND g.due_at = i.due_at)
		RETURNING w.*;
END $$;
-- +goose StatementEnd

-- When the next deferral is due, or the lease of one ends; NULL: none waits. What is due
-- behind the first one without a lease has a lease that ends later still.
-- +goose StatementBegin
CREATE FUNCTION notify_next_due() RETURNS timestamptz LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
	free timestamptz;
BEGIN
	SELECT w.due_at INTO free FROM notify_deferrals w WHERE w.next_at = w.due_at ORDER BY w.due_at, w.event_id LIMIT 1;
	RETURN least(free, (SELECT min(w.next_at) FROM notify_deferrals w WHERE w.due_at < coalesce(free, 'infinity')));
END $$;
-- +goose StatementEnd
