-- +goose Up
-- Preferences have a version, so that a change is not made from others than those stored. It
-- rises with each change.
ALTER TABLE notify_preferences ADD COLUMN version bigint NOT NULL DEFAULT 1;
