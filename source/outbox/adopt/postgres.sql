CREATE OR REPLACE FUNCTION keyfold_shard() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.shard := CASE WHEN NEW.user_id BETWEEN -2147483648 AND 2147483647 THEN (NEW.user_id::bigint * 2654435769 & 4294967295) >> 26 ELSE 0 END; RETURN NEW; END $$;

DROP TRIGGER IF EXISTS keyfold_shard ON user_interactions;

CREATE TRIGGER keyfold_shard BEFORE INSERT ON user_interactions
    FOR EACH ROW WHEN (NEW.shard IS NULL) EXECUTE FUNCTION keyfold_shard();

CREATE TABLE IF NOT EXISTS keyfold_event_ids (
    user_id INTEGER NOT NULL,
    digest  BYTEA NOT NULL, -- the first half of the message id's SHA-256
    PRIMARY KEY (user_id, digest)
);

CREATE TABLE IF NOT EXISTS keyfold_outbox_state (
    id            SMALLINT PRIMARY KEY,
    history_floor TIMESTAMP(3) NULL,
    cleaned_id    BIGINT NOT NULL DEFAULT 0
);

INSERT INTO keyfold_outbox_state (id) VALUES (1), (2) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS keyfold_relay_shards (
    shard SMALLINT PRIMARY KEY
);

INSERT INTO keyfold_relay_shards (shard) VALUES {{shards}} ON CONFLICT DO NOTHING;
