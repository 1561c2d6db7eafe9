package localenv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// runFolders begins the names of the folders of run, below the system's folder for temporary files.
const runFolders = "switchyard-run-"

// Folder is a temporary folder with the files of a local process. A lock marks it as in use: the
// program holds it, and so does the process, which inherits Lock. A folder without a holder, as
// after kill -9, is removed when the next one is created.
type Folder struct {
	// Root has the files.
	Root string
	// Lock is for the process to inherit.
	Lock *os.File
	top  string
}

// NewFolder creates a folder for a workload, and removes those that no process uses any more.
func NewFolder(workload string) (*Folder, error) {
	removeUnused(os.TempDir())
	top, err := os.MkdirTemp("", runFolders+workload+"-")
	if err != nil {
		return nil, err
	}
	f := &Folder{top: top, Root: filepath.Join(top, "root")}
	fresh := filepath.Join(top, "new")
	f.Lock, err = os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil { // By this name it is never seen without its lock.
		err = os.Rename(fresh, filepath.Join(top, "lock"))
	}
	if err == nil {
		err = os.Mkdir(f.Root, ownFolder)
	}
	if err != nil {
		return nil, errors.Join(err, f.Remove())
	}
	return f, nil
}

// Release removes the folder, unless a process has inherited its lock and is still running: then
// the next NewFolder after the end of that process does.
func (f *Folder) Release() error {
	_ = f.Lock.Close() // the process has its own
	lock, err := os.OpenFile(filepath.Join(f.top, "lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	f.Lock = lock
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return lock.Close()
	}
	return f.Remove()
}

// Remove removes the folder.
func (f *Folder) Remove() error {
	if f.Lock != nil {
		defer f.Lock.Close()
	}
	return errors.Join(os.RemoveAll(f.Root), os.RemoveAll(f.top))
}

// removeUnused removes folders of this user that no process holds. One that cannot be removed stays.
func removeUnused(dir string) {
	all, _ := os.ReadDir(dir)
	for _, one := range all {
		path := filepath.Join(dir, one.Name())
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !strings.HasPrefix(one.Name(), runFolders) {
			continue
		}
		if of, ok := info.Sys().(*syscall.Stat_t); !ok || int(of.Uid) != os.Geteuid() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		f := &Folder{Root: filepath.Join(path, "root"), Lock: lock, top: path}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = f.Remove()
		} else {
			_ = lock.Close()
		}
	}
}
