-- +goose Up

-- The ids of the rows that `keyfold outbox cleanup` deleted: an event that is
-- posted again after that is still a duplicate.
CREATE TABLE keyfold_cleaned_ids (
    user_id INTEGER NOT NULL,
    digest  BLOB NOT NULL, -- the first half of the message id's SHA-256
    PRIMARY KEY (user_id, digest)
) STRICT, WITHOUT ROWID;

-- An id is unique per user, as in profiles. tried_at is when a row was given to
-- the broker for the first time. SQLite drops a UNIQUE constraint only with its
-- table. The new table's ids go on behind those of the old one.
CREATE TABLE keyfold_new_interactions (
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

    message_id         TEXT NOT NULL,
    body               TEXT NOT NULL,
    shard              INTEGER NOT NULL,
    attempts           INTEGER NOT NULL DEFAULT 0,
    sent_at            TEXT NULL,
    failed_at          TEXT NULL,
    last_error         TEXT NULL,
    tried_at           TEXT NULL,

    UNIQUE (user_id, message_id)
) STRICT;

INSERT INTO keyfold_new_interactions SELECT *, NULL FROM user_interactions;

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

-- +goose Down
DROP TABLE user_interactions;
DROP TABLE keyfold_cleaned_ids;
