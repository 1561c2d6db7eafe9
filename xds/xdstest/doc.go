// Package xdstest has what tests of xDS need on both sides of the server: Facts on
// a real log that a real View follows, stated for a test by a Board, and a
// Client, which speaks the sidecar's side of delta xDS message by message.
package xdstest
