-- +goose Up

-- A dump names no schema to look in when it is restored: the type is found when the function
-- is made, not when it runs. Without that a dump's deferrals were refused.
CREATE OR REPLACE FUNCTION notify_type_of(event text) RETURNS notify_event_type LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN (event::json ->> 'event_type')::notify_event_type;
