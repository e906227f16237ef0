-- +goose Up

-- No number in user_id overflows the expression of the shard: in a table that was taken
-- over the column may hold numbers that no event has.
DROP TRIGGER IF EXISTS keyfold_shard;

-- +goose StatementBegin
CREATE TRIGGER keyfold_shard AFTER INSERT ON user_interactions WHEN NEW.shard IS NULL BEGIN
    UPDATE user_interactions
    SET shard = CASE WHEN NEW.user_id BETWEEN -2147483648 AND 2147483647 THEN (NEW.user_id * 2654435769 & 4294967295) >> 26 ELSE 0 END,
        occurred_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', NEW.occurred_at), NEW.occurred_at),
        created_at = COALESCE(strftime('%Y-%m-%d %H:%M:%f', NEW.created_at), strftime('%Y-%m-%d %H:%M:%f', 'now'))
    WHERE id = NEW.id; END;
-- +goose StatementEnd

-- +goose Down
SELECT 1;
