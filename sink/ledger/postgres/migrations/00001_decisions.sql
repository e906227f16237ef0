-- +goose Up
CREATE TYPE notify_outcome AS ENUM ('NOW', 'LATER', 'NEVER');
CREATE TYPE notify_channel AS ENUM ('push', 'email', 'sms', 'in_app');
CREATE TYPE notify_event_type AS ENUM ('MESSAGE', 'REMINDER', 'ALERT', 'PROMO', 'SYSTEM', 'UPDATE', 'SECURITY', 'DIGEST');
CREATE TYPE notify_delivery_status AS ENUM ('PENDING', 'DELIVERED', 'DELIVERY_FAILED', 'SUPPRESSED');

-- No index but the primary key: an update of a user stays on its page.
CREATE TABLE notify_users (
	user_id    text           PRIMARY KEY CHECK (char_length(user_id) BETWEEN 1 AND 128),
	version    bigint         NOT NULL,
	state      bytea          NOT NULL, -- empty before the first decision
	decided_at timestamptz(3) NOT NULL,
	erased_at  timestamptz(3)
) WITH (fillfactor = 60);

CREATE TABLE notify_preferences (
	user_id     text           PRIMARY KEY,
	preferences json           NOT NULL,
	updated_at  timestamptz(3) NOT NULL DEFAULT now()
);

-- An event has one key: a partitioned table cannot have event_id unique.
CREATE TABLE notify_event_keys (
	event_id    uuid           PRIMARY KEY,
	user_id     text           NOT NULL,
	turn        smallint       NOT NULL CHECK (turn BETWEEN 0 AND 2),
	decision_id uuid           NOT NULL,
	digest_id   uuid,
	outcome     notify_outcome NOT NULL,
	dispatched  boolean        NOT NULL,
	decided_at  timestamptz(3) NOT NULL
);
CREATE INDEX notify_event_keys_decided ON notify_event_keys (decided_at);
CREATE INDEX notify_event_keys_undispatched ON notify_event_keys (decided_at, event_id) WHERE outcome = 'NOW' AND NOT dispatched;
CREATE INDEX notify_event_keys_digest ON notify_event_keys (digest_id) WHERE digest_id IS NOT NULL;

-- One row per turn of an event; one partition per day (UTC). Of an erased user,
-- user_id, print, digest_key, event and facts are NULL. JSON is kept as text: an event
-- is read as it was posted.
CREATE TABLE notify_decisions (
	decision_id      uuid              NOT NULL, -- a UUIDv7 of decided_at
	event_id         uuid              NOT NULL,
	user_id          text,
	seq              bigint            NOT NULL, -- the user's version that this decision made
	event_type       notify_event_type NOT NULL,
	source           text              NOT NULL,
	print            bytea,                      -- content hash, simhash and words of the texts
	outcome          notify_outcome    NOT NULL,
	reasons          text[]            NOT NULL,
	matched_rule_id  uuid,
	rule_version     text              NOT NULL,
	defer_count      smallint          NOT NULL,
	decided_at       timestamptz(3)    NOT NULL,
	defer_until      timestamptz(3),
	spent            uuid[],                     -- rules that have deferred the event
	digest_key       text,
	slot             timestamptz(3),
	digest_id        uuid,
	duplicate_of     uuid,
	channels         notify_channel[],
	score            double precision,
	ai_used          boolean           NOT NULL,
	ai_score         double precision,
	event            json,
	facts            json,
	delivery_status  notify_delivery_status,
	delivered_at     timestamptz(3),
	delivery_channel notify_channel,
	delivery_error   text,
	PRIMARY KEY (decided_at, decision_id),
	CONSTRAINT notify_decisions_defer_until CHECK ((outcome = 'LATER') = (defer_until IS NOT NULL)),
	CONSTRAINT notify_decisions_ai_score CHECK (NOT ai_used OR ai_score IS NOT NULL)
) PARTITION BY RANGE (decided_at);
CREATE INDEX notify_decisions_user ON notify_decisions (user_id, seq);
CREATE INDEX notify_decisions_event ON notify_decisions (event_id);
CREATE INDEX notify_decisions_delivery ON notify_decisions (delivery_status) WHERE delivery_status IN ('PENDING', 'DELIVERY_FAILED');

CREATE TABLE notify_deferrals (
	event_id   uuid           PRIMARY KEY,
	user_id    text           NOT NULL,
	turn       smallint       NOT NULL, -- the next one
	due_at     timestamptz(3) NOT NULL,
	spent      uuid[],
	digest_key text,
	slot       timestamptz(3),
	event      text           NOT NULL,
	next_at    timestamptz(3) NOT NULL  -- due_at, or the end of the lease
);
CREATE INDEX notify_deferrals_next ON notify_deferrals (next_at, event_id);
CREATE INDEX notify_deferrals_group ON notify_deferrals (user_id, digest_key, due_at);

-- The instant in a UUIDv7.
-- +goose StatementBegin
CREATE FUNCTION notify_instant(id uuid) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
	SELECT timestamptz 'epoch' + ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint * interval '1 millisecond'
$$;
-- +goose StatementEnd
