-- +goose NO TRANSACTION
-- +goose Up

-- A shop's own INSERT leaves shard and created_at to their defaults. No value of user_id
-- overflows the expression of the shard. created_at is UTC as all times here, whatever
-- the session's time zone.
ALTER TABLE user_interactions
    ALTER COLUMN shard SET DEFAULT (CASE WHEN user_id BETWEEN -2147483648 AND 2147483647 THEN (user_id * 2654435769 & 4294967295) >> 26 ELSE 0 END){{created_at}};

-- +goose Down
DO 0;
