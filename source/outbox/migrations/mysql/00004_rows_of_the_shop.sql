-- +goose NO TRANSACTION
-- +goose Up

-- Setup has registered the ids of all rows: they are in keyfold_event_ids.
DROP TABLE IF EXISTS keyfold_cleaned_ids;

-- A repeated id is marked as a duplicate and never fails a shop's transaction, so that
-- no key of this table is unique but its rows' own. The column headers has traceparent,
-- tracestate and X-Request-Id, which travel with the event. This statement stands last, as
-- the one of the migration before.
ALTER TABLE user_interactions
    DROP KEY uniq_user_message,
    ADD COLUMN headers JSON NULL;

-- +goose Down
DROP TABLE user_interactions;
