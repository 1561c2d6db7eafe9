-- +goose Up
-- Since when a route group has had no sandbox; 0: it has some.
ALTER TABLE objects ADD COLUMN unmatched BIGINT NOT NULL DEFAULT 0;
