// Package controlplane tests the REST API of the control plane as its published clients use it, with the
// real store. testdata/session.jsonl has requests of such a client, with the status and the error
// text of the answers; testdata/crashes.jsonl has answers that crash it.
package controlplane
