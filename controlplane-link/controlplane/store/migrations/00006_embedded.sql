-- +goose Up
-- The session of the page with which a login was accepted; zeros: none.
ALTER TABLE device_logins ADD COLUMN session TEXT NOT NULL DEFAULT '0000000000000000000000000000000000000000000000000000000000000000';
