package faults

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"switchyard.dev/tests/podnet"
)

// isolated in the environment marks the process that runs in namespaces of its
// own, and names its scratch directory.
const isolated = "SWITCHYARD_FAULTS_SCRATCH"

// Isolate runs this program again in a separate mount and network namespace, with a working
// directory in memory, and ends with its exit code; in that second run it returns the directory.
// Call it first in main or TestMain. In a process that is a bus under test it runs the bus instead
// and does not return.
func Isolate() (scratch string, err error) {
	if c := os.Getenv(busConfig); c != "" {
		os.Exit(serveBus(c))
	}
	if scratch := os.Getenv(isolated); scratch != "" {
		return scratch, furnish(scratch)
	}
	for program, from := range map[string]string{"mkfs.ext4": "e2fsprogs", "mount": "mount", "strace": "strace"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%w; apt-get install %s", err, from)
		}
	}
	code, err := rerun()
	if err != nil {
		return "", err
	}
	os.Exit(code)
	return "", nil
}

// rerun runs this program again and returns its exit code.
func rerun() (int, error) {
	scratch, err := os.MkdirTemp("", "switchyard-faults-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(scratch) }() // empty: its content was mounted in the namespace
	return podnet.RerunIn(syscall.CLONE_NEWNS|syscall.CLONE_NEWNET, isolated+"="+scratch)
}

// furnish brings loopback up and mounts the scratch directory.
func furnish(scratch string) error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	// Mounts here must not be visible outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return mountMemory(scratch, "size=2g")
}

// mountMemory mounts a tmpfs; options are its own.
func mountMemory(dir, options string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil { //nolint:gosec // our own parent process made the directory and named it
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mount a tmpfs (%s): %w", options, err)
	}
	return nil
}
