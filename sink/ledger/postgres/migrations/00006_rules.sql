-- +goose Up

-- The sets of rules that were published. The document is kept as it was written.
CREATE TABLE notify_rule_sets (
	set_version  bigint         PRIMARY KEY,
	document     json           NOT NULL,
	checksum     bytea          NOT NULL, -- SHA-256 of the document's text
	published_at timestamptz(3) NOT NULL,
	published_by text           NOT NULL,
	note         text           NOT NULL
);

-- Records name a set by its number: what the number stands for does not change, whatever
-- the rights of a role.
-- +goose StatementBegin
CREATE FUNCTION notify_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a published set of rules is not changed' USING HINT = 'publish another one: keyfold notify rules publish';
END $$;
-- +goose StatementEnd
CREATE TRIGGER notify_rule_sets_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON notify_rule_sets
	FOR EACH STATEMENT EXECUTE FUNCTION notify_refuse_change();

-- The set in force, and a candidate under which workers decide a second time without
-- effect. Workers read the numbers often, and a document when its number is a new one.
CREATE TABLE notify_active (
	only_one       boolean PRIMARY KEY DEFAULT true CHECK (only_one),
	set_version    bigint  NOT NULL REFERENCES notify_rule_sets,
	shadow_version bigint, -- NULL: no candidate
	shadow         json
);
CREATE SEQUENCE notify_shadow_version;

-- The rules of the set in force. Two rules can exchange their priorities in one
-- transaction.
CREATE TABLE notify_rules (
	rule_id     uuid           PRIMARY KEY,
	name        text           NOT NULL,
	description text,
	priority    integer        NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED,
	conditions  jsonb          NOT NULL,
	action      jsonb          NOT NULL,
	enabled     boolean        NOT NULL,
	version     text           NOT NULL,
	updated_by  text           NOT NULL,
	created_at  timestamptz(3) NOT NULL,
	updated_at  timestamptz(3) NOT NULL
);

-- Decisions that would have been others under the candidate: the newest ones, of no user
-- by name. Counts are of all decisions since the candidate came.
CREATE TABLE notify_shadow (
	id             bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	shadow_version bigint         NOT NULL,
	set_version    text           NOT NULL,
	decision_id    uuid           NOT NULL,
	was            notify_outcome NOT NULL,
	was_reasons    text[]         NOT NULL,
	would          notify_outcome NOT NULL,
	would_reasons  text[]         NOT NULL,
	decided_at     timestamptz(3) NOT NULL
);
CREATE TABLE notify_shadow_counts (
	shadow_version bigint         NOT NULL,
	was            notify_outcome NOT NULL,
	would          notify_outcome NOT NULL,
	differ         bigint         NOT NULL, -- in outcome, reasons or time
	decisions      bigint         NOT NULL,
	PRIMARY KEY (shadow_version, was, would)
);

-- Puts a document into force where the set in force is the one expected (0: none), and
-- tells which one is in force before. published is NULL where it is another one. Readers
-- wait for nothing.
-- +goose StatementBegin
CREATE FUNCTION notify_publish(doc text, by_whom text, why text, expected bigint, OUT published bigint, OUT active bigint) LANGUAGE plpgsql AS $$
DECLARE
	at timestamptz(3) := clock_timestamp();
BEGIN
	LOCK TABLE notify_active IN EXCLUSIVE MODE;
	SELECT coalesce(max(a.set_version), 0) INTO active FROM notify_active a;
	IF active <> expected THEN
		RETURN;
	END IF;
	SELECT coalesce(max(s.set_version), 0) + 1 INTO published FROM notify_rule_sets s;
	INSERT INTO notify_rule_sets (set_version, document, checksum, published_at, published_by, note)
		VALUES (published, doc::json, sha256(convert_to(doc, 'UTF8')), at, by_whom, why);
	INSERT INTO notify_active AS a (set_version) VALUES (published)
		ON CONFLICT (only_one) DO UPDATE SET set_version = excluded.set_version;
	DELETE FROM notify_rules r WHERE NOT EXISTS (
		SELECT FROM jsonb_array_elements(doc::jsonb -> 'rules') d WHERE (d ->> 'rule_id')::uuid = r.rule_id);
	INSERT INTO notify_rules AS r
		SELECT (d ->> 'rule_id')::uuid, d ->> 'name', d ->> 'description', (d ->> 'priority')::numeric::integer,
			d -> 'conditions', d -> 'action', coalesce((d ->> 'enabled')::boolean, true), d ->> 'version',
			coalesce(d ->> 'updated_by', by_whom), coalesce((d ->> 'created_at')::timestamptz, at), coalesce((d ->> 'updated_at')::timestamptz, at)
		FROM jsonb_array_elements(doc::jsonb -> 'rules') d
		ON CONFLICT (rule_id) DO UPDATE SET name = excluded.name, description = excluded.description, priority = excluded.priority,
			conditions = excluded.conditions, action = excluded.action, enabled = excluded.enabled, version = excluded.version,
			updated_by = excluded.updated_by, updated_at = excluded.updated_at
		WHERE (r.name, r.description, r.priority, r.conditions, r.action, r.enabled, r.version)
			IS DISTINCT FROM (excluded.name, excluded.description, excluded.priority, excluded.conditions, excluded.action, excluded.enabled, excluded.version);
END $$;
-- +goose StatementEnd
