// Package node defines the parts of a node and keeps them running.
//
// A Part is one program as a value: its arguments and its health check. Parts and Files are pure:
// from the layout they compute the programs to start and their configuration. Start, Find and Probe
// act: they start a part detached from this process, find it again in the kernel's list of
// processes, and check its health.
//
// Nothing supervises the parts. If one is killed, run `up` again: it finds those that run and
// starts the others.
package node
