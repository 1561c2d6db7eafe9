package netns

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec replaces this process by a command inside the namespace. Standard input and output, signals
// and the exit code are therefore those of the command, which is searched in the PATH of this
// process. When resolv is not empty, it is mounted as /etc/resolv.conf for the command alone, so
// that it can use the cluster's names. Exec returns only on failure.
func Exec(path, resolv string, argv, env []string) error {
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("finding the command: %w", err)
	}
	runtime.LockOSThread() // the thread that runs execve gives the new process its namespaces
	if err := Enter(path); err != nil {
		return err
	}
	if resolv != "" {
		if err := showResolv(resolv); err != nil {
			return err
		}
	}
	if err := syscall.Exec(program, argv, env); err != nil {
		return fmt.Errorf("running %s: %w", program, err)
	}
	return nil
}

// showResolv moves this thread to a new mount namespace and mounts resolv over /etc/resolv.conf
// there.
func showResolv(resolv string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keeping mounts of the command to itself: %w", err)
	}
	if err := unix.Mount(resolv, "/etc/resolv.conf", "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s over /etc/resolv.conf: %w", resolv, err)
	}
	return nil
}
