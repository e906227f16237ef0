-- +goose Up

-- Setup has registered the ids of all rows: they are in keyfold_event_ids.
DROP TABLE keyfold_cleaned_ids;

-- A shop's own INSERT gives the specification's columns: a relay adds the id and the
-- body of such a row and registers its id before it publishes the row. A repeated id is
-- marked as a duplicate and never fails a shop's transaction. SQLite drops a UNIQUE or
-- a NOT NULL only with its table. The new table's ids go on behind those of the old one.
CREATE TABLE keyfold_new_interactions (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id            INTEGER NOT NULL CHECK (user_id BETWEEN -2147483648 AND 2147483647),
    event_type         TEXT NOT NULL
        CHECK (event_type IN ('search', 'product_view', 'product_click', 'product_purchase')),
    search_phrase      TEXT NULL,
    product_id         INTEGER NULL,
    occurred_at        TEXT NOT NULL,
    metadata           TEXT NULL CHECK (metadata IS NULL OR json_valid(metadata)),
    created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    processed_to_queue INTEGER NOT NULL DEFAULT 0,

    message_id         TEXT NULL,
    body               TEXT NULL,
    shard              INTEGER NULL, -- the trigger below fills it
    attempts           INTEGER NOT NULL DEFAULT 0,
    sent_at            TEXT NULL,
    failed_at          TEXT NULL,
    last_error         TEXT NULL,
    tried_at           TEXT NULL,
    registered         INTEGER NOT NULL DEFAULT 0,
    duplicate          INTEGER NOT NULL DEFAULT 0,
    headers            TEXT NULL -- traceparent, tracestate and X-Request-Id, which travel with the event
) STRICT;

INSERT INTO keyfold_new_interactions SELECT *, 0, NULL FROM user_interactions;

INSERT INTO sqlite_sequence (name, seq)
    SELECT 'keyfold_new_interactions', 0
    WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'keyfold_new_interactions');

UPDATE sqlite_sequence
    SET seq = (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name IN ('user_interactions', 'keyfold_new_interactions'))
    WHERE name = 'keyfold_new_interactions';

DROP TABLE user_interactions;

ALTER TABLE keyfold_new_interactions RENAME TO user_interactions;

CREATE INDEX idx_user_occurred ON user_interactions (user_id, occurred_at DESC);
CREATE INDEX idx_event_type ON user_interactions (event_type);
CREATE INDEX idx_product ON user_interactions (product_id);
CREATE INDEX idx_occurred ON user_interactions (occurred_at);
CREATE INDEX idx_processed ON user_interactions (processed_to_queue, occurred_at);
CREATE INDEX idx_unsent ON user_interactions (processed_to_queue, failed_at, shard, id, user_id);

-- Of a shop's row it adds the shard of the user, and writes the times in the form that
-- sorts by time.
-- +goose StatementBegin
CREATE TRIGGER keyfold_shard AFTER INSERT ON user_interactions WHEN NEW.shard IS NULL BEGIN
    UPDATE user_interactions
    SET shard = (NEW.user_id * 2654435769 & 4294967295) >> 26,
        occurred_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', NEW.occurred_at), NEW.occurred_at),
        created_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', NEW.created_at), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    WHERE id = NEW.id; END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE user_interactions;
