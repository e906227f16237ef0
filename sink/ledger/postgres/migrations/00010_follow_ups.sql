-- +goose Up

-- What users did with what was delivered, each the first time.
ALTER TABLE notify_decisions ADD COLUMN opened_at timestamptz(3), ADD COLUMN clicked_at timestamptz(3), ADD COLUMN dismissed_at timestamptz(3);

-- notify_commit takes follow-ups, too: deferrals of events that are new. Arrays f_* have one
-- element for each. Otherwise it is as 00002 and 00003 have made it. The former function is
-- dropped, because its callers cannot read the states of this version.
-- +goose StatementBegin
DO $$ BEGIN
	EXECUTE (SELECT 'DROP FUNCTION ' || p.oid::regprocedure FROM pg_proc p
		WHERE p.proname = 'notify_commit' AND p.pronamespace = current_schema()::regnamespace);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION notify_commit(
	c_user text[], c_version bigint[], c_turns int[], c_state bytea[], c_at timestamptz[],
	d_of text[], d_newest boolean[], d_effect int[],
	d_decision uuid[], d_event uuid[], d_user text[], d_seq bigint[], d_type text[], d_source text[], d_print bytea[],
	d_outcome text[], d_reasons text[], d_rule uuid[], d_rule_version text[], d_turn int[], d_at timestamptz[],
	d_until timestamptz[], d_spent text[], d_key text[], d_slot timestamptz[], d_digest uuid[], d_duplicate uuid[],
	d_channels text[], d_score float8[], d_ai boolean[], d_ai_score float8[], d_body text[], d_facts text[],
	p_of text[], p_event uuid[], p_due timestamptz[],
	f_of text[], f_event uuid[], f_due timestamptz[], f_key text[], f_body text[],
	marked uuid[]
) RETURNS TABLE (
	written text, event_id uuid, user_id text, turn smallint, decision_id uuid, digest_id uuid,
	outcome notify_outcome, dispatched boolean, decided_at timestamptz
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = '2s' AS $$
#variable_conflict use_column
DECLARE
	blocked text[];
	winners text[];
	known   text[];
	wanted  bigint;
	n       bigint;
BEGIN
	IF cardinality(c_user) > 0 THEN
		RETURN QUERY SELECT NULL::text, k.event_id, k.user_id, k.turn, k.decision_id, k.digest_id, k.outcome, k.dispatched, k.decided_at
			FROM notify_event_keys k WHERE k.event_id = ANY (d_event);
		blocked := ARRAY(SELECT d.of FROM unnest(d_of, d_event, d_turn) AS d (of, event, turn)
			JOIN notify_event_keys k ON k.event_id = d.event WHERE k.user_id <> d.of OR k.turn >= d.turn);

		WITH new AS (
			INSERT INTO notify_users AS u (user_id, version, state, decided_at)
			SELECT c.id, c.turns, c.state, c.at FROM unnest(c_user, c_version, c_turns, c_state, c_at) AS c (id, version, turns, state, at)
			WHERE c.version = 0 AND c.turns > 0 AND c.id <> ALL (blocked)
			ORDER BY c.id COLLATE "C"
			ON CONFLICT (user_id) DO NOTHING
			RETURNING u.user_id
		) SELECT coalesce(array_agg(new.user_id), '{}') INTO winners FROM new;

		known := ARRAY(SELECT u.user_id FROM unnest(c_user, c_version) AS c (id, version)
			JOIN notify_users u ON u.user_id = c.id AND u.version = c.version
			WHERE c.version > 0 AND c.id <> ALL (blocked)
			ORDER BY u.user_id COLLATE "C" FOR UPDATE OF u);
		-- A change without decisions makes no user.
		winners := winners || known || ARRAY(SELECT c.id FROM unnest(c_user, c_version, c_turns) AS c (id, version, turns)
			WHERE c.version = 0 AND c.turns = 0 AND NOT EXISTS (SELECT FROM notify_users u WHERE u.user_id = c.id));

		UPDATE notify_users u SET version = u.version + c.turns, state = c.state, decided_at = c.at
			FROM unnest(c_user, c_turns, c_state, c_at) AS c (id, turns, state, at)
			WHERE u.user_id = c.id AND c.turns > 0 AND c.id = ANY (known);

		SELECT count(*) INTO wanted FROM unnest(d_of, d_newest) AS d (of, newest) WHERE d.newest AND d.of = ANY (winners);
		INSERT INTO notify_event_keys AS k (event_id, user_id, turn, decision_id, digest_id, outcome, dispatched, decided_at)
			SELECT d.event, d.of, d.turn, d.decision, d.digest, d.outcome::notify_outcome, false, d.at
			FROM unnest(d_of, d_newest, d_event, d_turn, d_decision, d_digest, d_outcome, d_at)
				AS d (of, newest, event, turn, decision, digest, outcome, at)
			WHERE d.newest AND d.of = ANY (winners)
			ORDER BY d.event
			ON CONFLICT (event_id) DO UPDATE SET turn = excluded.turn, decision_id = excluded.decision_id,
				digest_id = excluded.digest_id, outcome = excluded.outcome, dispatched = false, decided_at = excluded.decided_at
			WHERE k.user_id = excluded.user_id AND k.turn < excluded.turn;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n <> wanted THEN
			RAISE EXCEPTION 'an event was decided by another call meanwhile' USING ERRCODE = 'KF001';
		END IF;

		INSERT INTO notify_decisions (decision_id, event_id, user_id, seq, event_type, source, print, outcome, reasons,
				matched_rule_id, rule_version, defer_count, decided_at, defer_until, spent, digest_key, slot, digest_id,
				duplicate_of, channels, score, ai_used, ai_score, event, facts, delivery_status)
			SELECT d.decision, d.event, d.id, d.seq, d.kind::notify_event_type, d.source, d.print, d.outcome::notify_outcome,
				d.reasons::text[], d.rule, d.rule_version, d.turn, d.at, d.until, d.spent::uuid[], d.key, d.slot, d.digest,
				d.duplicate, d.channels::notify_channel[], d.score, d.ai, d.ai_score, d.body::json, d.facts::json,
				CASE d.outcome WHEN 'NOW' THEN 'PENDING'::notify_delivery_status WHEN 'NEVER' THEN 'SUPPRESSED' END
			FROM unnest(d_of, d_decision, d_event, d_user, d_seq, d_type, d_source, d_print, d_outcome, d_reasons, d_rule,
					d_rule_version, d_turn, d_at, d_until, d_spent, d_key, d_slot, d_digest, d_duplicate, d_channels, d_score,
					d_ai, d_ai_score, d_body, d_facts)
				AS d (of, decision, event, id, seq, kind, source, print, outcome, reasons, rule, rule_version, turn, at, until,
					spent, key, slot, digest, duplicate, channels, score, ai, ai_score, body, facts)
			WHERE d.of = ANY (winners);

		INSERT INTO notify_deferrals AS w (event_id, user_id, turn, due_at, spent, digest_key, slot, event, next_at)
			SELECT d.event, d.of, d.turn + 1, d.until, d.spent::uuid[], d.key, d.slot, d.body, d.until
			FROM unnest(d_of, d_effect, d_event, d_turn, d_until, d_spent, d_key, d_slot, d_body)
				AS d (of, effect, event, turn, until, spent, key, slot, body)
			WHERE d.effect = 1 AND d.of = ANY (winners)
			ORDER BY d.event
			ON CONFLICT (event_id) DO UPDATE SET turn = excluded.turn, due_at = excluded.due_at, spent = excluded.spent,
				digest_key = excluded.digest_key, slot = excluded.slot, event = excluded.event, next_at = excluded.next_at;
		DELETE FROM notify_deferrals w USING unnest(d_of, d_effect, d_event) AS d (of, effect, event)
			WHERE d.effect = 2 AND d.of = ANY (winners) AND w.event_id = d.event;
		UPDATE notify_deferrals w SET due_at = p.due, next_at = p.due
			FROM unnest(p_of, p_event, p_due) AS p (of, event, due)
			WHERE w.event_id = p.event AND w.user_id = p.of AND p.of = ANY (winners);
		-- A follow-up that was decided already, or waits, stays as it is.
		INSERT INTO notify_deferrals AS w (event_id, user_id, turn, due_at, digest_key, slot, event, next_at)
			SELECT f.event, f.of, 0, f.due, f.key, CASE WHEN f.key IS NOT NULL THEN f.due END, f.body, f.due
			FROM unnest(f_of, f_event, f_due, f_key, f_body) AS f (of, event, due, key, body)
			WHERE f.of = ANY (winners) AND NOT EXISTS (SELECT FROM notify_event_keys k WHERE k.event_id = f.event)
			ORDER BY f.event
			ON CONFLICT (event_id) DO NOTHING;
		RETURN QUERY SELECT c.id, NULL::uuid, NULL::text, NULL::smallint, NULL::uuid, NULL::uuid, NULL::notify_outcome,
			NULL::boolean, NULL::timestamptz FROM unnest(winners) AS c (id);
	END IF;

	IF cardinality(marked) > 0 THEN
		UPDATE notify_event_keys SET dispatched = true WHERE event_id IN (
			SELECT k.event_id FROM notify_event_keys k WHERE k.event_id = ANY (marked) AND k.outcome = 'NOW'
			ORDER BY k.event_id FOR UPDATE SKIP LOCKED);
		DELETE FROM notify_deferrals WHERE event_id IN (
			SELECT w.event_id FROM notify_deferrals w
			WHERE w.event_id = ANY (marked) AND EXISTS (SELECT FROM notify_event_keys k WHERE k.event_id = w.event_id AND k.outcome = 'NOW')
			ORDER BY w.event_id FOR UPDATE SKIP LOCKED);
	END IF;
END $$;
-- +goose StatementEnd

-- Locks the decisions that reports name, in the order of their ids: those of ids, and
-- those of the events or digests of ids. A decision is read by its id from the partition
-- of its day.
DROP FUNCTION notify_reported(uuid[], uuid[]);
-- +goose StatementBegin
CREATE FUNCTION notify_reported(decisions uuid[], events uuid[]) RETURNS TABLE (
	decision_id uuid, event_id uuid, digest_id uuid, newest boolean, outcome notify_outcome, erased boolean,
	delivery_status notify_delivery_status, delivered_at timestamptz, delivery_channel notify_channel, delivery_error text,
	opened_at timestamptz, clicked_at timestamptz, dismissed_at timestamptz, user_id text, event_type notify_event_type
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
				d.outcome, d.user_id IS NULL, d.delivery_status, d.delivered_at, d.delivery_channel, d.delivery_error,
				d.opened_at, d.clicked_at, d.dismissed_at, d.user_id, d.event_type
			FROM notify_decisions d WHERE d.decided_at = notify_instant(named_id) AND d.decision_id = named_id FOR UPDATE OF d;
	END LOOP;
END $$;
-- +goose StatementEnd

-- Writes deliveries of decisions that are locked.
DROP FUNCTION notify_deliver(uuid[], text[], timestamptz[], text[], text[]);
-- +goose StatementBegin
CREATE FUNCTION notify_deliver(
	ids uuid[], statuses text[], instants timestamptz[], used text[], errors text[], opened timestamptz[], clicked timestamptz[], dismissed timestamptz[]
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off AS $$
BEGIN
	FOR i IN 1 .. cardinality(ids) LOOP
		UPDATE notify_decisions SET delivery_status = statuses[i]::notify_delivery_status, delivered_at = instants[i],
			delivery_channel = used[i]::notify_channel, delivery_error = errors[i],
			opened_at = opened[i], clicked_at = clicked[i], dismissed_at = dismissed[i]
		WHERE decided_at = notify_instant(ids[i]) AND decision_id = ids[i];
	END LOOP;
END $$;
-- +goose StatementEnd

-- How users respond to what was delivered, see notify.Responses.
CREATE TABLE notify_responses (
	user_id   text PRIMARY KEY,
	responses json NOT NULL
) WITH (fillfactor = 70);

-- What was reported of the newest decisions of events. Each is read from the partition of its day.
-- +goose StatementBegin
CREATE FUNCTION notify_reports_of(events uuid[]) RETURNS TABLE (
	event_id uuid, delivery_status notify_delivery_status, opened_at timestamptz, clicked_at timestamptz, dismissed_at timestamptz
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
	key record;
BEGIN
	FOR key IN SELECT k.event_id, k.decision_id FROM notify_event_keys k WHERE k.event_id = ANY (events) LOOP
		RETURN QUERY SELECT key.event_id, d.delivery_status, d.opened_at, d.clicked_at, d.dismissed_at
			FROM notify_decisions d WHERE d.decided_at = notify_instant(key.decision_id) AND d.decision_id = key.decision_id;
	END LOOP;
END $$;
-- +goose StatementEnd
