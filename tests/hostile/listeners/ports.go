package listeners

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// everyPort fails when a program listens, for other pods, on a port that is not in All.
func (w *World) everyPort(ctx context.Context) error {
	var errs []error
	seen := map[string]bool{}
	for _, l := range All() {
		p := l.Program
		if seen[p.Name] || p == controlPlane && w.link == nil {
			continue
		}
		seen[p.Name] = true
		ports, err := w.listening(ctx, p)
		if err != nil {
			return fmt.Errorf("find where %s listens: %w", p.Name, err)
		}
		for _, port := range ports {
			if !slices.ContainsFunc(All(), func(l *Listener) bool { return l.Program == p && l.Port == port }) {
				errs = append(errs, fmt.Errorf("%s listens on port %d, which no attack covers: add it to All", p.Name, port))
			}
		}
	}
	return errors.Join(errs...)
}

// listening returns the ports on which the processes of a program's containers listen at
// addresses that other pods can reach.
func (w *World) listening(ctx context.Context, p Program) ([]int, error) {
	if p == controlPlane {
		return listeningOf(w.link.ID())
	}
	var ports []int
	err := w.containers(ctx, p, func(all []container) error {
		ports = nil
		for _, c := range all {
			of, err := listeningIn(c.id)
			if err != nil {
				return fmt.Errorf("container %s of pod %s: %w", p.Container, c.pod, err)
			}
			ports = append(ports, of...)
		}
		return nil
	})
	slices.Sort(ports)
	return slices.Compact(ports), err
}

// listeningIn returns the ports on which the processes of a container listen.
func listeningIn(id string) (ports []int, err error) {
	pids, err := processes(id)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		of, err := listeningOf(pid)
		if err != nil {
			return nil, err
		}
		ports = append(ports, of...)
	}
	return ports, nil
}

// listeningOf returns the ports on which one process listens.
func listeningOf(pid int) (ports []int, err error) {
	proc, sockets := fmt.Sprintf("/proc/%d", pid), map[string]bool{}
	files, err := filepath.Glob(filepath.Join(proc, "fd", "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil { // files come and go
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			// Fields as in proc_net_tcp(5): local address, remote address, state, …, inode.
			f := strings.Fields(line)
			const listens = "0A"
			if len(f) < 10 || f[3] != listens || !sockets[f[9]] || loopback(f[1]) {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			port, err := strconv.ParseInt(hex, 16, 32)
			if err != nil {
				return nil, fmt.Errorf("read %s/net/%s: %w", proc, table, err)
			}
			ports = append(ports, int(port))
		}
	}
	return ports, nil
}

// loopback reports whether a local address, as the kernel writes it, is one that only the
// pod itself reaches.
func loopback(local string) bool {
	address, _, _ := strings.Cut(local, ":")
	const one, six, mapped = "0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"
	return address == one || address == six || address == mapped
}
