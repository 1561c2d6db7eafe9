// Package iocontext defines the protocol between a unit's pod and the IO context server, and the
// paths and variables of the pod's containers.
package iocontext
