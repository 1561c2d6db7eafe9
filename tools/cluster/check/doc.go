// Package check tests the whole program on this machine: it starts a node with a separate name and
// state directory, breaks it, repairs it and deletes it, and compares the machine with its state
// before. It can run beside a node that is in use. It needs root and, the first time, the minutes
// that compiling takes.
package check
