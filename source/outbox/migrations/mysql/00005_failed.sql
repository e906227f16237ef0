-- +goose NO TRANSACTION
-- +goose Up

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

-- +goose Down
DROP TABLE keyfold_failed;
