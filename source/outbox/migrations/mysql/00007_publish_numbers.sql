-- +goose NO TRANSACTION
-- +goose Up

-- What a relay publishes to streams, by shard. A broker knows the reference and drops a group
-- of events whose number is not above the last one that it has.
CREATE TABLE IF NOT EXISTS keyfold_publish_numbers (
    shard     TINYINT UNSIGNED NOT NULL PRIMARY KEY,
    reference VARCHAR(64) NOT NULL,
    number    BIGINT NOT NULL DEFAULT 0, -- the highest that was given
    stream    VARCHAR(255) NOT NULL DEFAULT '',
    noted_at  DATETIME(3) NULL,
    noted     MEDIUMTEXT NULL -- ids of the rows of each group that may be on its way, as JSON: the last group has this number
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

INSERT IGNORE INTO keyfold_publish_numbers (shard, reference) SELECT shard, UUID() FROM keyfold_relay_shards;

-- +goose Down
DROP TABLE keyfold_publish_numbers;
