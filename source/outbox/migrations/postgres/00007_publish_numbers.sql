-- +goose Up

-- What a relay publishes to streams, by shard. A broker knows the reference and drops a group
-- of events whose number is not above the last one that it has.
CREATE TABLE IF NOT EXISTS keyfold_publish_numbers (
    shard     SMALLINT NOT NULL PRIMARY KEY,
    reference VARCHAR(64) NOT NULL,
    number    BIGINT NOT NULL DEFAULT 0, -- the highest that was given
    stream    VARCHAR(255) NOT NULL DEFAULT '',
    noted_at  TIMESTAMP(3) NULL,
    noted     TEXT NULL -- ids of the rows of each group that may be on its way, as JSON: the last group has this number
);

INSERT INTO keyfold_publish_numbers (shard, reference)
    SELECT shard, md5(random()::text || clock_timestamp()::text || shard::text) FROM keyfold_relay_shards ON CONFLICT DO NOTHING;

-- +goose Down
DROP TABLE keyfold_publish_numbers;
