package keeper

import (
	"fmt"

	"golang.org/x/sys/unix"
)

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
