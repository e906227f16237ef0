-- +goose Up

-- Dead letters of the broker that `keyfold failed archive` has taken over, for those who
-- query failures in SQL: the columns of Symfony Messenger's messenger_messages, and what
-- finds a letter and its user again.
CREATE TABLE IF NOT EXISTS keyfold_failed (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    body         TEXT NOT NULL,
    headers      TEXT NOT NULL, -- a JSON object
    queue_name   TEXT NOT NULL,
    created_at   TEXT NOT NULL, -- when the event failed for the last time
    available_at TEXT NOT NULL, -- when it was archived
    delivered_at TEXT NULL,     -- the shop's own to set
    user_id      INTEGER NULL,
    digest       BLOB NOT NULL UNIQUE
) STRICT;

CREATE INDEX IF NOT EXISTS idx_failed_user ON keyfold_failed (user_id);

-- +goose Down
DROP TABLE keyfold_failed;
