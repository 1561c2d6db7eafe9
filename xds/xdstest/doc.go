// Package xdstest has what tests of xDS need on both sides of the server: a
// Board, which states facts on a real log that a real View follows, and a
// Client, which speaks the sidecar's side of delta xDS message by message.
package xdstest
