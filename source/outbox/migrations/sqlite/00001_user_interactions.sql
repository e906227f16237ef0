-- +goose Up

-- Every interaction, stored before it is published. The first nine columns are
-- the shop's; the others are what publishing needs. Times are UTC, as text that
-- sorts by time.
CREATE TABLE IF NOT EXISTS user_interactions (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id            INTEGER NOT NULL,
    event_type         TEXT NOT NULL
        CHECK (event_type IN ('search', 'product_view', 'product_click', 'product_purchase')),
    search_phrase      TEXT NULL,
    product_id         INTEGER NULL,
    occurred_at        TEXT NOT NULL,
    metadata           TEXT NULL CHECK (metadata IS NULL OR json_valid(metadata)),
    created_at         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    processed_to_queue INTEGER NOT NULL DEFAULT 0,

    message_id         TEXT NOT NULL UNIQUE,
    body               TEXT NOT NULL,
    shard              INTEGER NOT NULL,
    attempts           INTEGER NOT NULL DEFAULT 0,
    sent_at            TEXT NULL,
    failed_at          TEXT NULL,
    last_error         TEXT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS idx_user_occurred ON user_interactions (user_id, occurred_at DESC);
CREATE INDEX IF NOT EXISTS idx_event_type ON user_interactions (event_type);
CREATE INDEX IF NOT EXISTS idx_product ON user_interactions (product_id);
CREATE INDEX IF NOT EXISTS idx_occurred ON user_interactions (occurred_at);
CREATE INDEX IF NOT EXISTS idx_processed ON user_interactions (processed_to_queue, occurred_at);
CREATE INDEX IF NOT EXISTS idx_unsent ON user_interactions (processed_to_queue, failed_at, shard, id, user_id);

CREATE TABLE IF NOT EXISTS keyfold_relay_shards (
    shard INTEGER NOT NULL PRIMARY KEY
) STRICT;

INSERT OR IGNORE INTO keyfold_relay_shards (shard) VALUES {{shards}};

-- +goose Down
DROP TABLE keyfold_relay_shards;
DROP TABLE user_interactions;
