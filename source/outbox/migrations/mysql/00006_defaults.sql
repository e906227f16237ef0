-- +goose NO TRANSACTION
-- +goose Up

-- A shop's own INSERT leaves created_at and shard to their defaults. created_at is UTC as
-- all times here, whatever the session's time zone: a DATETIME by UTC_TIMESTAMP. (A
-- TIMESTAMP, which a table that was taken over may have, is an instant by
-- CURRENT_TIMESTAMP.) No value of user_id overflows the expression of the shard.
SET @keyfold_created_at = (
    SELECT CONCAT(', ALTER COLUMN created_at SET DEFAULT (UTC_TIMESTAMP(', MAX(datetime_precision), '))')
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'user_interactions' AND column_name = 'created_at'
        AND data_type = 'datetime' AND LOWER(column_default) LIKE 'current_timestamp%');

SET @keyfold_defaults = CONCAT('ALTER TABLE user_interactions ALTER COLUMN shard SET DEFAULT (',
    'CASE WHEN user_id BETWEEN -2147483648 AND 2147483647 THEN (user_id * 2654435769 & 4294967295) >> 26 ELSE 0 END)',
    COALESCE(@keyfold_created_at, ''));

PREPARE keyfold_defaults FROM @keyfold_defaults;

EXECUTE keyfold_defaults;

DEALLOCATE PREPARE keyfold_defaults;

-- +goose Down
DO 0;
