-- +goose NO TRANSACTION
-- +goose Up

-- What makes an event unique, for as long as the history reaches back: the row of an
-- event may lose its body, and a table of ids alone may be of another size and place
-- than the history.
CREATE TABLE IF NOT EXISTS keyfold_event_ids (
    user_id INT NOT NULL,
    digest  BINARY(16) NOT NULL, -- the first half of the message id's SHA-256
    PRIMARY KEY (user_id, digest)
) ENGINE=InnoDB;

INSERT IGNORE INTO keyfold_event_ids (user_id, digest) SELECT user_id, digest FROM keyfold_cleaned_ids;

-- Events that occurred before history_floor are refused: what was known of them is
-- pruned. The second row says up to which row a cleanup has freed all bodies.
CREATE TABLE IF NOT EXISTS keyfold_outbox_state (
    id            TINYINT NOT NULL PRIMARY KEY,
    history_floor DATETIME(3) NULL,
    cleaned_id    BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB;

INSERT IGNORE INTO keyfold_outbox_state (id) VALUES (1), (2);

-- A shop's own INSERT gives the specification's columns: a relay adds the id and the
-- body of such a row and registers its id before it publishes the row. This statement
-- stands last: setup takes the column registered for the sign that the whole migration
-- was run.
ALTER TABLE user_interactions
    MODIFY message_id VARCHAR(128) COLLATE {{exact}} NULL,
    MODIFY body MEDIUMTEXT NULL,
    MODIFY shard TINYINT UNSIGNED NOT NULL DEFAULT ((user_id * 2654435769 & 4294967295) >> 26),
    ADD COLUMN duplicate BOOLEAN NOT NULL DEFAULT FALSE,
    ADD COLUMN registered BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
DROP TABLE keyfold_outbox_state;
DROP TABLE keyfold_event_ids;
