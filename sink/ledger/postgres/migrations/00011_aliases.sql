-- +goose Up

-- Ids that stand for another user, since a merge. Such a user's row of notify_users says so too.
CREATE TABLE notify_aliases (
	alias     text           PRIMARY KEY,
	user_id   text           NOT NULL,
	merged_at timestamptz(3) NOT NULL,
	number    bigint         GENERATED ALWAYS AS IDENTITY -- in the order of the merges
);
CREATE INDEX notify_aliases_user ON notify_aliases (user_id);
