package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// A program in a pod finds the API server by its environment and by the files
// of its service account. accountVariable names the folder that has those files.
const (
	accountVariable = "SWITCHYARD_ENDURE_ACCOUNT"
	accountPath     = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// enterCluster puts the files of a service account where a pod has them, in a
// mount namespace of this process alone, and becomes the program.
func enterCluster(command []string) error {
	files := map[string][]byte{}
	for _, name := range []string{"token", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(os.Getenv(accountVariable), name)) //nolint:gosec // our own parent process names it
		if err != nil {
			return err
		}
		files[name] = content
	}
	runtime.LockOSThread() // the namespace is the thread's, and stays so over exec
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	// What the fork set is another thread's.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		return err
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", run, "tmpfs", 0, "size=1m"),
		os.MkdirAll(accountPath, 0o700),
	); err != nil {
		return fmt.Errorf("mount the files of the service account: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(accountPath, name), content, 0o600); err != nil {
			return err
		}
	}
	return unix.Exec(command[0], command, os.Environ())
}
