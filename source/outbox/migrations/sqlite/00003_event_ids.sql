-- +goose Up

-- What makes an event unique, for as long as the history reaches back.
CREATE TABLE keyfold_event_ids (
    user_id INTEGER NOT NULL,
    digest  BLOB NOT NULL, -- the first half of the message id's SHA-256
    PRIMARY KEY (user_id, digest)
) STRICT, WITHOUT ROWID;

INSERT INTO keyfold_event_ids (user_id, digest) SELECT user_id, digest FROM keyfold_cleaned_ids;

-- Events that occurred before history_floor are refused: what was known of them is
-- pruned. The second row says up to which row a cleanup has freed all bodies.
CREATE TABLE keyfold_outbox_state (
    id            INTEGER PRIMARY KEY,
    history_floor TEXT NULL,
    cleaned_id    INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO keyfold_outbox_state (id) VALUES (1), (2);

ALTER TABLE user_interactions ADD COLUMN registered INTEGER NOT NULL DEFAULT 0;

-- +goose Down
DROP TABLE keyfold_outbox_state;
DROP TABLE keyfold_event_ids;
