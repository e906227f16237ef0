-- +goose Up

-- No value of user_id overflows the expression of the shard, which would fail the shop's
-- INSERT: in a table that was taken over the column may hold numbers that no event has.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keyfold_shard() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.shard := CASE WHEN NEW.user_id BETWEEN -2147483648 AND 2147483647 THEN (NEW.user_id::bigint * 2654435769 & 4294967295) >> 26 ELSE 0 END; RETURN NEW; END $$;
-- +goose StatementEnd

-- created_at of a table that was taken over may be TIMESTAMP DEFAULT now(), which is the
-- time in the session's time zone: it becomes UTC, as all times here.
-- +goose StatementBegin
DO $$ BEGIN
    IF EXISTS (
        SELECT FROM pg_attribute
        JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attrelid = 'user_interactions'::regclass AND attname = 'created_at' AND atttypid = 'timestamp'::regtype
            AND pg_get_expr(adbin, adrelid) ~* 'now|timestamp' AND pg_get_expr(adbin, adrelid) !~* 'utc'
    ) THEN
        ALTER TABLE user_interactions ALTER COLUMN created_at SET DEFAULT (statement_timestamp() AT TIME ZONE 'UTC'); END IF; END $$;
-- +goose StatementEnd

-- +goose Down
SELECT 1;
