-- +goose NO TRANSACTION
-- +goose Up

-- Setup has registered the ids of all rows: they are in keyfold_event_ids.
DROP TABLE IF EXISTS keyfold_cleaned_ids;

-- Dead letters of the broker that `keyfold failed archive` has taken over, for those who
-- query failures in SQL: the columns of Symfony Messenger's messenger_messages, and what
-- finds a letter and its user again.
CREATE TABLE IF NOT EXISTS keyfold_failed (
    id           BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    body         MEDIUMTEXT NOT NULL,
    headers      MEDIUMTEXT NOT NULL, -- a JSON object
    queue_name   VARCHAR(190) NOT NULL,
    created_at   DATETIME(3) NOT NULL, -- when the event failed for the last time
    available_at DATETIME(3) NOT NULL, -- when it was archived
    delivered_at DATETIME(3) NULL,     -- the shop's own to set
    user_id      INT NULL,
    digest       BINARY(16) NOT NULL,
    UNIQUE KEY uniq_digest (digest),
    KEY idx_user (user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- A repeated id is marked as a duplicate and never fails a shop's transaction, so that
-- no key of this table is unique but its rows' own. This statement stands last, as the
-- one of the migration before.
ALTER TABLE user_interactions
    DROP KEY uniq_user_message,
    ADD COLUMN headers JSON NULL; -- traceparent, tracestate and X-Request-Id, which travel with the event

-- +goose Down
DROP TABLE keyfold_failed;
DROP TABLE user_interactions;
