CREATE TABLE IF NOT EXISTS keyfold_event_ids (
    user_id INTEGER NOT NULL,
    digest  BLOB NOT NULL, -- the first half of the message id's SHA-256
    PRIMARY KEY (user_id, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS keyfold_outbox_state (
    id            INTEGER PRIMARY KEY,
    history_floor TEXT NULL,
    cleaned_id    INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT OR IGNORE INTO keyfold_outbox_state (id) VALUES (1), (2);

CREATE TABLE IF NOT EXISTS keyfold_relay_shards (
    shard INTEGER NOT NULL PRIMARY KEY
) STRICT;

INSERT OR IGNORE INTO keyfold_relay_shards (shard) VALUES {{shards}};

CREATE TRIGGER IF NOT EXISTS keyfold_shard AFTER INSERT ON user_interactions WHEN NEW.shard IS NULL BEGIN
    UPDATE user_interactions
    SET shard = CASE WHEN NEW.user_id BETWEEN -2147483648 AND 2147483647 THEN (NEW.user_id * 2654435769 & 4294967295) >> 26 ELSE 0 END,
        occurred_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', NEW.occurred_at), NEW.occurred_at),
        created_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', NEW.created_at), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    WHERE id = NEW.id; END;
