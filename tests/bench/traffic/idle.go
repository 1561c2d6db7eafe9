package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tests/figures"
)

// mebi is a MiB.
const mebi = 1 << 20

// idle measures a container to which nothing is attached: its memory, its processor time, and the ports on which it listens.
func (b *bench) idle(ctx context.Context, s settings, w io.Writer) error {
	p, err := b.container(ctx, "idle", newManager())
	if err != nil {
		return err
	}
	defer p.Kill()
	one := &place{name: "idle", processes: []int{p.PID()}}
	before, err := one.computed()
	if err != nil {
		return err
	}
	time.Sleep(s.idle / 2)
	var all, own, files []float64
	for until := time.Now().Add(s.idle / 2); time.Now().Before(until); time.Sleep(time.Second / 4) {
		now, err := mapped(p.PID())
		if err != nil {
			return err
		}
		all, own, files = append(all, now["Rss"]/mebi), append(own, now["Anonymous"]/mebi), append(files, (now["Rss"]-now["Anonymous"])/mebi)
	}
	after, err := one.computed()
	if err != nil {
		return err
	}
	figures.AtMost(w, "traffic-idle-memory", figures.Median(all), "MiB", 10)
	figures.Print(w, "traffic-idle-memory-of-its-own", figures.Median(own), "MiB")
	figures.Print(w, "traffic-idle-memory-of-its-file", figures.Median(files), "MiB")
	figures.Print(w, "traffic-idle-memory-most", slices.Max(all), "MiB")
	ports, err := listening(p.PID())
	figures.Text(w, "traffic-idle-ports", ports, "ports", "0", ports == 0)
	figures.Print(w, "traffic-idle-cpu", float64((after-before).Microseconds())/1e3/s.idle.Seconds(), "ms-per-s")
	return err
}

// mapped returns the sums of a process's mappings by kind, in bytes.
func mapped(pid int) (map[string]float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return nil, err
	}
	sums := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if name, rest, is := strings.Cut(line, ":"); is {
			if n, _ := fmt.Sscanf(rest, "%f kB", &kib); n == 1 {
				sums[name] = kib * 1024
			}
		}
	}
	return sums, nil
}

// listening returns on how many ports a process listens.
func listening(pid int) (n int, err error) {
	inodes := map[string]bool{}
	for _, file := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && inodes[to] {
			n++
		}
	}
	return n, err
}
