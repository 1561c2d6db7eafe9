-- +goose Up
-- Certificates of preview domains and keys of ACME accounts, encrypted. They belong to no organisation.
CREATE TABLE certificates (
    name TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    key_id TEXT NOT NULL,
    sealed TEXT NOT NULL
);
