-- +goose Up
-- The address from which the login was begun, and the host of the embedded preview that has begun it; empty: not known, none.
ALTER TABLE device_logins ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE device_logins ADD COLUMN preview TEXT NOT NULL DEFAULT '';
