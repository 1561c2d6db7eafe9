package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// replace replaces a file as a whole: a process that is killed and a power cut
// leave the old content or the new one, and once replace returns the new one.
func replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails when all went well
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new name in a folder outlast a loss of power.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

const (
	// filesApart is how many files Envoy has beside connections: logs, timers, sockets.
	filesApart = 128
	// filesEach is how many files each connection that Envoy takes may need: one for itself,
	// and one for a connection to each of three clusters, which idle ones keep for a while.
	filesEach = 4
)

// connections returns how many connections fit into a limit of files, one at least.
func connections(files uint64) uint32 {
	if files < filesApart+filesEach {
		return 1
	}
	return uint32(min((files-filesApart)/filesEach, 1<<31))
}

// mostFiles returns the hard limit of open files, which Envoy inherits and raises its own
// limit to.
func mostFiles() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("ask for the limit of open files: %w", err)
	}
	return limit.Max, nil
}
