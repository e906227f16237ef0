-- +goose Up

-- What a relay publishes to streams, by shard. A broker knows the reference and drops a group
-- of events whose number is not above the last one that it has.
CREATE TABLE IF NOT EXISTS keyfold_publish_numbers (
    shard     INTEGER NOT NULL PRIMARY KEY,
    reference TEXT NOT NULL,
    number    INTEGER NOT NULL DEFAULT 0, -- the highest that was given
    stream    TEXT NOT NULL DEFAULT '',
    noted_at  TEXT NULL,
    noted     TEXT NULL -- ids of the rows of each group that may be on its way, as JSON: the last group has this number
) STRICT;

INSERT OR IGNORE INTO keyfold_publish_numbers (shard, reference) SELECT shard, lower(hex(randomblob(16))) FROM keyfold_relay_shards;

-- +goose Down
DROP TABLE keyfold_publish_numbers;
