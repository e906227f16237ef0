-- +goose Up

-- The name of an erased user: see notify.Tombstone.
-- +goose StatementBegin
CREATE FUNCTION notify_tombstone(user_id text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
	SELECT 'erased:' || encode(sha512(convert_to(user_id, 'UTF8')), 'hex')
$$;
-- +goose StatementEnd

-- An erased user is kept as a tombstone, whose name is longer than any id.
ALTER TABLE notify_users DROP CONSTRAINT notify_users_user_id_check;
ALTER TABLE notify_users ADD CONSTRAINT notify_users_user_id_check
	CHECK (erased_at IS NOT NULL OR char_length(user_id) BETWEEN 1 AND 128) NOT VALID;
UPDATE notify_event_keys SET user_id = notify_tombstone(user_id)
	WHERE user_id IN (SELECT u.user_id FROM notify_users u WHERE u.erased_at IS NOT NULL);
UPDATE notify_users SET user_id = notify_tombstone(user_id) WHERE erased_at IS NOT NULL;

-- A user who was erased is not made again. An erasure keeps the row of the user locked
-- until it ends, so an insert that came meanwhile has waited for it, and sees the
-- tombstone here.
-- +goose StatementBegin
CREATE FUNCTION notify_refuse_erased() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	IF EXISTS (SELECT FROM notify_users u WHERE u.user_id = notify_tombstone(NEW.user_id)) THEN
		RAISE EXCEPTION 'the user is erased' USING ERRCODE = 'KF003';
	END IF;
	RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER notify_users_erased AFTER INSERT ON notify_users FOR EACH ROW EXECUTE FUNCTION notify_refuse_erased();
