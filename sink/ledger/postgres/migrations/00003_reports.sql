-- +goose Up

-- A commit that meets a row which another session keeps locked fails for that user
-- alone, and not for all of its call.
ALTER FUNCTION notify_commit SET lock_timeout = '2s';

-- What is PENDING for long is found by its time.
DROP INDEX notify_decisions_delivery;
CREATE INDEX notify_decisions_delivery ON notify_decisions (delivery_status, decided_at)
	WHERE delivery_status IN ('PENDING', 'DELIVERY_FAILED');

-- Marks events that expired before their dispatch. What is not delivered and was not
-- dispatched becomes DELIVERY_FAILED. Keys, deferrals and decisions are locked in the
-- order of notify_commit, each sorted; a key that another call has locked is left out.
-- +goose StatementBegin
CREATE FUNCTION notify_expire(expired uuid[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	events    uuid[];
	decisions uuid[];
BEGIN
	WITH locked AS (
		SELECT k.event_id, k.decision_id, k.dispatched FROM notify_event_keys k
		WHERE k.event_id = ANY (expired) AND k.outcome = 'NOW' ORDER BY k.event_id FOR UPDATE SKIP LOCKED
	) SELECT array_agg(l.event_id), array_agg(l.decision_id ORDER BY l.decision_id) FILTER (WHERE NOT l.dispatched)
		INTO events, decisions FROM locked l;
	UPDATE notify_event_keys SET dispatched = true WHERE event_id = ANY (events) AND NOT dispatched;
	DELETE FROM notify_deferrals WHERE event_id IN (
		SELECT w.event_id FROM notify_deferrals w WHERE w.event_id = ANY (events) ORDER BY w.event_id FOR UPDATE SKIP LOCKED);
	FOR i IN 1 .. coalesce(cardinality(decisions), 0) LOOP
		UPDATE notify_decisions SET delivery_status = 'DELIVERY_FAILED', delivery_error = 'EXPIRED_BEFORE_DISPATCH'
		WHERE decided_at = notify_instant(decisions[i]) AND decision_id = decisions[i] AND delivery_status = 'PENDING';
	END LOOP;
END $$;
-- +goose StatementEnd

-- Locks the decisions that reports name, in the order of their ids: those of ids, and
-- those of the events or digests of ids. A decision is read by its id from the partition
-- of its day.
-- +goose StatementBegin
CREATE FUNCTION notify_reported(decisions uuid[], events uuid[]) RETURNS TABLE (
	decision_id uuid, event_id uuid, digest_id uuid, newest boolean, outcome notify_outcome, erased boolean,
	delivery_status notify_delivery_status, delivered_at timestamptz, delivery_channel notify_channel, delivery_error text
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
	named uuid[];
	named_id uuid;
BEGIN
	SELECT array_agg(n.id ORDER BY n.id) INTO named FROM (
		SELECT unnest(decisions) AS id
		UNION SELECT k.decision_id FROM notify_event_keys k WHERE k.event_id = ANY (events)
		UNION SELECT k.decision_id FROM notify_event_keys k WHERE k.digest_id = ANY (events)) n;
	FOREACH named_id IN ARRAY coalesce(named, '{}') LOOP
		RETURN QUERY SELECT d.decision_id, d.event_id, d.digest_id,
				EXISTS (SELECT FROM notify_event_keys k WHERE k.event_id = d.event_id AND k.decision_id = d.decision_id),
				d.outcome, d.user_id IS NULL, d.delivery_status, d.delivered_at, d.delivery_channel, d.delivery_error
			FROM notify_decisions d WHERE d.decided_at = notify_instant(named_id) AND d.decision_id = named_id FOR UPDATE OF d;
	END LOOP;
END $$;
-- +goose StatementEnd

-- Writes deliveries of decisions that are locked.
-- +goose StatementBegin
CREATE FUNCTION notify_deliver(ids uuid[], statuses text[], instants timestamptz[], used text[], errors text[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off AS $$
BEGIN
	FOR i IN 1 .. cardinality(ids) LOOP
		UPDATE notify_decisions SET delivery_status = statuses[i]::notify_delivery_status, delivered_at = instants[i],
			delivery_channel = used[i]::notify_channel, delivery_error = errors[i]
		WHERE decided_at = notify_instant(ids[i]) AND decision_id = ids[i];
	END LOOP;
END $$;
-- +goose StatementEnd

-- Counts NOWs decided before an instant whose delivery is not reported, at most so
-- many: the index has the oldest ones first, and reading ends there.
-- +goose StatementBegin
CREATE FUNCTION notify_unreported(before timestamptz, most int) RETURNS bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
	RETURN (SELECT count(*) FROM (SELECT FROM notify_decisions
		WHERE delivery_status = 'PENDING' AND decided_at < before AND user_id IS NOT NULL LIMIT most) AS p);
END $$;
-- +goose StatementEnd
