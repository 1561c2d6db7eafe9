// Package controlplane kills the process that writes to the store of a control plane, and cuts the
// power of the disk under SQLite and PostgreSQL: every acknowledged write must be there afterwards,
// and none half applied.
//
// The process (Write) has several writers. Each write has an event, which describes the object
// after it: so the audit trail alone shows what the objects must be.
//
//	Run      the process is killed, or the power cut                               run.go
//	Deliver  replicas that write and deliver are killed, and connections cut       deliver.go
//	Restore  the store is replaced by an older backup                              restore.go
//
// It needs root and mkfs.ext4, as package faults, and PostgreSQL.
package controlplane
