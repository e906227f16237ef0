-- +goose Up

-- The type of an event that waits. An event that was stored is JSON of a known type.
-- +goose StatementBegin
CREATE FUNCTION notify_type_of(event text) RETURNS notify_event_type LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
	SELECT (event::json ->> 'event_type')::notify_event_type
$$;
-- +goose StatementEnd
ALTER TABLE notify_deferrals ADD COLUMN event_type notify_event_type GENERATED ALWAYS AS (notify_type_of(event)) STORED;

-- Deferrals are counted from the index alone.
DROP INDEX notify_deferrals_next;
CREATE INDEX notify_deferrals_next ON notify_deferrals (next_at, event_id) INCLUDE (due_at, event_type);

-- A claim writes each row: its pages are vacuumed before many versions have gathered.
ALTER TABLE notify_deferrals SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Work that one process at a time does, such as the sweep.
CREATE TABLE notify_leases (
	name        text           PRIMARY KEY,
	holder      uuid           NOT NULL,
	lease_until timestamptz(3) NOT NULL
);

-- Leases at most about n deferrals that are due, oldest first, and with one of a digest
-- the others of its user and key that have the same time. Claims run side by side and
-- wait for nothing: what another call has locked is left out, and so is a digest of
-- which another call has locked an item, so that each is claimed whole.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION notify_claim(at timestamptz, lease_end timestamptz, n int) RETURNS SETOF notify_deferrals LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '2s' AS $$
BEGIN
	RETURN QUERY WITH oldest AS (
			SELECT w.event_id, w.user_id, w.digest_key, w.due_at FROM notify_deferrals w
			WHERE w.next_at <= at ORDER BY w.next_at, w.event_id LIMIT n FOR UPDATE SKIP LOCKED
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
