-- +goose Up
-- The user who has deleted an object by force, as in author; empty: the author.
ALTER TABLE objects ADD COLUMN forced_by TEXT NOT NULL DEFAULT '';
