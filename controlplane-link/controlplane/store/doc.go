// Package store keeps the state of a control plane in SQLite, for one process, or in PostgreSQL, for
// several replicas. Both have the same tables and statements; the contract is that of package model.
//
//   - A write and its entry in the audit trail are one transaction. It increments the generation of
//     the organisation in its first statement, so the writes of an organisation are serial: a check
//     and the write that depends on it need no further lock, and no retry.
//   - Status, heartbeats (reports of clusters, sessions of agents and devboxes, times of last use)
//     and polls of logins are observations, not writes: each is one statement without an entry.
//   - SQLite is in WAL mode with synchronous=FULL, and PostgreSQL commits synchronously: a write that
//     has returned survives the process, the database server, and a power cut.
//   - Secrets are encrypted with a key from a file, other credentials are digests.
//   - Changes notify watchers at all replicas, which then read (Watch).
//   - Texts that are no UTF-8 or have a NUL character are refused (model.ErrText): PostgreSQL has no such
//     text.
//
// All SQL is in sql.go and in the folder migrations; package database has none but that of the databases.
package store
