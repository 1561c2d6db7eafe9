-- +goose Up
-- Rows are deleted by these times.
CREATE INDEX device_logins_by_expiry ON device_logins (expires);
CREATE INDEX logins_by_expiry ON logins (refresh_by);
