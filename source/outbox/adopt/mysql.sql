CREATE TABLE IF NOT EXISTS keyfold_event_ids (
    user_id INT NOT NULL,
    digest  BINARY(16) NOT NULL,
    PRIMARY KEY (user_id, digest)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS keyfold_outbox_state (
    id            TINYINT NOT NULL PRIMARY KEY,
    history_floor DATETIME(3) NULL,
    cleaned_id    BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB;

INSERT IGNORE INTO keyfold_outbox_state (id) VALUES (1), (2);

CREATE TABLE IF NOT EXISTS keyfold_relay_shards (
    shard TINYINT UNSIGNED NOT NULL PRIMARY KEY
) ENGINE=InnoDB;

INSERT IGNORE INTO keyfold_relay_shards (shard) VALUES {{shards}};

ALTER TABLE user_interactions ALTER COLUMN shard SET DEFAULT (CASE WHEN user_id BETWEEN -2147483648 AND 2147483647 THEN (user_id * 2654435769 & 4294967295) >> 26 ELSE 0 END);
