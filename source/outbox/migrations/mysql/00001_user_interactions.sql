-- +goose NO TRANSACTION
-- +goose Up

-- Every interaction, stored before it is published. The first nine columns are
-- the shop's; the others are what publishing needs.
CREATE TABLE IF NOT EXISTS user_interactions (
    id                 BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, -- INT is full after 50 days at 500 a second
    user_id            INT NOT NULL,
    event_type         ENUM('search', 'product_view', 'product_click', 'product_purchase') NOT NULL,
    search_phrase      VARCHAR(255) NULL,
    product_id         INT NULL,
    occurred_at        DATETIME(3) NOT NULL, -- UTC, as all times here
    metadata           JSON NULL,
    created_at         DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    processed_to_queue BOOLEAN NOT NULL DEFAULT FALSE,

    message_id         VARCHAR(128) COLLATE {{exact}} NOT NULL, -- 'a', 'A' and 'a ' are three ids
    body               MEDIUMTEXT NOT NULL,                     -- the message, as it came
    shard              TINYINT UNSIGNED NOT NULL,               -- of the user: who publishes it locks it
    attempts           INT UNSIGNED NOT NULL DEFAULT 0,
    sent_at            DATETIME(3) NULL,
    failed_at          DATETIME(3) NULL,                        -- set aside: not published, not tried again
    last_error         VARCHAR(255) NULL,

    UNIQUE KEY uniq_message_id (message_id),
    KEY idx_user_occurred (user_id, occurred_at DESC),
    KEY idx_event_type (event_type),
    KEY idx_product (product_id),
    KEY idx_occurred (occurred_at),
    KEY idx_processed (processed_to_queue, occurred_at),
    KEY idx_unsent (processed_to_queue, failed_at, shard, id, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- One row per shard of users. Who publishes a shard's events holds the lock on
-- its row, which ends with the connection, however that ends.
CREATE TABLE IF NOT EXISTS keyfold_relay_shards (
    shard TINYINT UNSIGNED NOT NULL PRIMARY KEY
) ENGINE=InnoDB;

INSERT IGNORE INTO keyfold_relay_shards (shard) VALUES {{shards}};

-- +goose Down
DROP TABLE keyfold_relay_shards;
DROP TABLE user_interactions;
