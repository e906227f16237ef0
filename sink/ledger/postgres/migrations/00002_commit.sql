-- +goose Up

-- Writes the changes of users, each whole or not at all, and then marks dispatches.
-- The arrays c_* have one element per change, the users differ; d_* have one per
-- decision, p_* one per postponed deferral. d_effect says what the decision means for
-- its event's deferral: 1 replaces it, 2 deletes it. d_newest: no decision of its event
-- follows. The rows are the users whose change was written, and the keys that events
-- of the changes had before.
--
-- Locks are taken in one order, so that calls never wait for each other in a circle:
-- new users, known users, keys, deferrals, each sorted. Claims and marks skip what is
-- locked. The planner must not choose by the sizes of tables that were empty when a
-- connection planned its first call.
-- +goose StatementBegin
CREATE FUNCTION notify_commit(
	c_user text[], c_version bigint[], c_turns int[], c_state bytea[], c_at timestamptz[],
	d_of text[], d_newest boolean[], d_effect int[],
	d_decision uuid[], d_event uuid[], d_user text[], d_seq bigint[], d_type text[], d_source text[], d_print bytea[],
	d_outcome text[], d_reasons text[], d_rule uuid[], d_rule_version text[], d_turn int[], d_at timestamptz[],
	d_until timestamptz[], d_spent text[], d_key text[], d_slot timestamptz[], d_digest uuid[], d_duplicate uuid[],
	d_channels text[], d_score float8[], d_ai boolean[], d_ai_score float8[], d_body text[], d_facts text[],
	p_of text[], p_event uuid[], p_due timestamptz[],
	marked uuid[]
) RETURNS TABLE (
	written text, event_id uuid, user_id text, turn smallint, decision_id uuid, digest_id uuid,
	outcome notify_outcome, dispatched boolean, decided_at timestamptz
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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

-- Leases at most about n deferrals that are due, oldest first, and with one of a digest
-- the others of its user and key that have the same time. One claim runs at a time: two
-- would share a digest between them. A deferral that a commit is writing is left out.
-- +goose StatementBegin
CREATE FUNCTION notify_claim(at timestamptz, lease_end timestamptz, n int) RETURNS SETOF notify_deferrals LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('notify_claim'));
	RETURN QUERY WITH oldest AS (
			SELECT w.event_id, w.user_id, w.digest_key, w.due_at FROM notify_deferrals w
			WHERE w.next_at <= at ORDER BY w.next_at, w.event_id LIMIT n FOR UPDATE SKIP LOCKED
		), grouped AS (
			SELECT w.event_id FROM (SELECT DISTINCT o.user_id, o.digest_key, o.due_at FROM oldest o WHERE o.digest_key IS NOT NULL) o
			JOIN notify_deferrals w ON w.user_id = o.user_id AND w.digest_key = o.digest_key AND w.due_at = o.due_at
			WHERE w.next_at <= at FOR UPDATE OF w SKIP LOCKED
		)
		UPDATE notify_deferrals w SET next_at = lease_end
		WHERE w.event_id IN (SELECT oldest.event_id FROM oldest UNION SELECT grouped.event_id FROM grouped)
		RETURNING w.*;
END $$;
-- +goose StatementEnd
