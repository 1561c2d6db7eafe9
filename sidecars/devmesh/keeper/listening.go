package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/sidecars/devmesh"
)

// socketTables are where the kernel lists the TCP sockets of the pod, those that
// listen first: no more is read than them.
var socketTables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// The end of addresses in 127.0.0.0/8, and ::1, as the kernel's tables write them.
const (
	loopback4 = "7F"
	loopback6 = "00000000000000000000000001000000"
)

// stateListen is TCP_LISTEN in the kernel's tables.
const stateListen = "0A"

// applicationPorts returns the ports on which programs other than the sidecar listen in the
// pod. It reads them from the kernel instead of connecting, which the application would notice.
func applicationPorts() (ports []uint64, err error) {
	for _, table := range socketTables {
		file, err := os.Open(table)
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		found, err := listening(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
		ports = append(ports, found...)
	}
	return slices.DeleteFunc(ports, func(port uint64) bool {
		return port == devmesh.ListenerPort || port == devmesh.ReadinessPort
	}), nil
}

// listening returns the ports with a listener in a socket table of the kernel, except those
// that only the pod itself can reach.
func listening(table io.Reader) (ports []uint64, err error) {
	lines := bufio.NewScanner(table)
	lines.Scan() // the head
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != stateListen {
			break
		}
		address, port, _ := strings.Cut(fields[1], ":")
		if strings.HasSuffix(address, loopback4) && len(address) == len(loopback6)/4 || address == loopback6 {
			continue // nothing is redirected there
		}
		number, err := strconv.ParseUint(port, 16, 16)
		if err != nil {
			return nil, fmt.Errorf("the socket %q: %w", fields[1], err)
		}
		ports = append(ports, number)
	}
	return ports, lines.Err()
}
