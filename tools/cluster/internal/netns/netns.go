// Package netns creates, enters and deletes the network namespace of a node.
//
// A namespace is kept alive and named by a mount of it below /run/netns, which `ip netns` and
// `nsenter --net=` use as well. It is never entered with `ip netns exec`, which mounts a new /sys
// over the cgroups that kubelet needs.
//
// A namespace belongs to a thread. Do therefore runs its function on a separate thread that
// terminates afterwards; a process or socket created there belongs to the namespace permanently.
// The function must not use other goroutines.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// ID identifies a namespace: the inode that a namespace file points to.
type ID struct{ Dev, Ino uint64 }

// Of returns the ID of a namespace by a path to it, such as /proc/1/ns/net. The
// error is fs.ErrNotExist when there is no such file or no namespace is mounted
// on it.
func Of(path string) (ID, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return ID{}, &fs.PathError{Op: "stat namespace", Path: path, Err: err}
	}
	if s.Type != unix.NSFS_MAGIC {
		return ID{}, &fs.PathError{Op: "stat namespace", Path: path, Err: fs.ErrNotExist}
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return ID{}, &fs.PathError{Op: "stat namespace", Path: path, Err: err}
	}
	return ID{Dev: st.Dev, Ino: st.Ino}, nil
}

// Create makes the namespace that path names, unless it is there already.
func Create(path string) error {
	if _, err := Of(path); err == nil {
		return nil
	}
	if err := shareFolder(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return fmt.Errorf("naming the network namespace: %w", err)
	}
	f.Close()
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		self := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		if err := unix.Mount(self, path, "none", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting the network namespace on %s: %w", path, err)
		}
		return nil
	})
}

// Try returns nil when this process is allowed to create network namespaces. The one it creates for
// the test has no name and is deleted at once.
func Try() error {
	return onThread(func() error { return unix.Unshare(unix.CLONE_NEWNET) })
}

// shareFolder makes the directory of named namespaces a shared mount, as `ip netns` does. Otherwise
// the first `ip netns add` of another program would copy the mount of this one to a place where it
// can no longer be unmounted.
func shareFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	share := func() error { return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "") }
	if err := share(); !errors.Is(err, unix.EINVAL) {
		return wrap(err, "sharing the mount "+dir)
	}
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting %s on itself: %w", dir, err)
	}
	return wrap(share(), "sharing the mount "+dir)
}

// Delete removes the name of the namespace. The kernel deletes the namespace itself, with its
// devices, addresses, routes and iptables rules, when the last process in it has ended. It returns
// nil if the name does not exist.
func Delete(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmounting the network namespace %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the name of the network namespace: %w", err)
	}
	return nil
}

// Do runs f inside the namespace and returns its error.
func Do(path string, f func() error) error {
	return onThread(func() error {
		if err := Enter(path); err != nil {
			return err
		}
		return f()
	})
}

// Enter moves the calling thread into the namespace for good. The caller must
// have locked its goroutine to the thread.
func Enter(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the network namespace %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the network namespace %s: %w", path, err)
	}
	return nil
}

// onThread runs f on a thread that terminates afterwards. That must not be the first thread of the
// process, which never terminates; /proc shows its state as that of the process.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			result <- onThread(f) // on another thread, since this one is taken
			runtime.UnlockOSThread()
			return
		}
		result <- f() // never unlocked, so the thread ends with the goroutine
	}()
	return <-result
}

func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
