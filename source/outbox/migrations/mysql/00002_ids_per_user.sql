-- +goose NO TRANSACTION
-- +goose Up

-- The ids of the rows that `keyfold outbox cleanup` deleted: an event that is
-- posted again after that is still a duplicate.
CREATE TABLE IF NOT EXISTS keyfold_cleaned_ids (
    user_id INT NOT NULL,
    digest  BINARY(16) NOT NULL, -- the first half of the message id's SHA-256
    PRIMARY KEY (user_id, digest)
) ENGINE=InnoDB;

-- An id is unique per user, as in profiles. tried_at is when a row was given to
-- the broker for the first time. This statement stands last: setup takes the
-- column for the sign that the whole migration was run.
ALTER TABLE user_interactions
    ADD COLUMN tried_at DATETIME(3) NULL,
    ADD UNIQUE KEY uniq_user_message (user_id, message_id),
    DROP KEY uniq_message_id;

-- +goose Down
ALTER TABLE user_interactions
    DROP COLUMN tried_at,
    ADD UNIQUE KEY uniq_message_id (message_id),
    DROP KEY uniq_user_message;
DROP TABLE keyfold_cleaned_ids;
