// Package faults breaks the disk under the event bus and checks the remaining log: power cuts,
// flipped bits, missing and mangled files, a disk that is full, read-only or fails.
//
// The bus under test runs in a process of its own (Bus), on a disk that is made for it: an ext4
// file system in a loop device, or a tmpfs. Writers write through eventbus.Log and keep a ledger
// of the acknowledged events. After the fault the log must have every event of the ledger, each
// with the acknowledged checksum; or report itself that it was damaged.
//
// Everything is mounted in a mount namespace of its own (Isolate), so whatever
// happens nothing stays behind. It needs root, mkfs.ext4 and, for failing syncs,
// strace.
//
// The tests run each fault a few times; cmd/faults (make faults) runs them in
// full and prints the figures.
package faults
