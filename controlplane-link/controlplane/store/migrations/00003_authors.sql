-- +goose Up
-- The user whose rights in the cluster count for an object, in JSON; empty: the control plane itself.
ALTER TABLE objects ADD COLUMN author TEXT NOT NULL DEFAULT '';
