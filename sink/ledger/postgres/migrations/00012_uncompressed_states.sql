-- +goose Up

-- States are made of ids and hashes, which no compression makes smaller: the server tried it at
-- each write of a user with many marks, for two thirds of the time that all users' writes took.
ALTER TABLE notify_users ALTER COLUMN state SET STORAGE EXTERNAL;
