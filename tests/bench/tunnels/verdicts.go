package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
)

// heading and row print the measurements as a table, as they are taken.
func heading() {
	fmt.Printf("%-8s %-6s %9s %9s %9s %9s %9s %9s\n", "tunnel", "rtt", "up MB/s", "down MB/s", "p50 ms", "p99 ms", "CPU s/GB", "of 1,000")
}

func row(name string, roundTrip time.Duration, m measured) {
	fmt.Printf("%-8s %-6s %9.1f %9.1f %9.3f %9.3f %9.2f %9d\n", name, roundTrip, m.up, m.down, m.p50, m.p99, m.perGB, m.connected)
}

// verdicts prints the figures with their targets.
func verdicts(results map[string]map[time.Duration]measured, roundTrips []time.Duration) {
	out := os.Stdout
	for _, roundTrip := range roundTrips {
		tcp, carrier := results["tcp"][roundTrip], results["carrier"][roundTrip]
		if tcp.up == 0 || carrier.up == 0 {
			continue // not measured, which was printed
		}
		at := "-" + roundTrip.String()
		if roundTrip > 0 {
			figures.AtLeast(out, "tunnels-up-of-tcp"+at, 100*carrier.up/tcp.up, "%", 80)
			figures.AtLeast(out, "tunnels-down-of-tcp"+at, 100*carrier.down/tcp.down, "%", 80)
		} else {
			for _, other := range names()[1:] {
				if m, has := results[other][roundTrip]; has {
					figures.AtLeast(out, "tunnels-up-of-"+other+at, 100*carrier.up/m.up, "%", 100)
					figures.AtLeast(out, "tunnels-down-of-"+other+at, 100*carrier.down/m.down, "%", 100)
				}
			}
		}
		figures.Print(out, "tunnels-added-p50"+at, carrier.p50-tcp.p50, "ms")
		figures.Print(out, "tunnels-added-p99"+at, carrier.p99-tcp.p99, "ms")
		figures.Print(out, "tunnels-cpu"+at, carrier.perGB, "s/GB")
		figures.AtLeast(out, "tunnels-connected-at-once"+at, float64(carrier.connected), "connections", crowd)
	}
}

func names() (all []string) {
	for _, t := range tunnels {
		all = append(all, t.name)
	}
	return all
}

// cpu returns the processor time of the tunnel's programs, at both ends.
func (p *programs) cpu() (sum time.Duration) {
	for _, pid := range slices.Concat(p.near, p.far) {
		for _, member := range process.Family(pid) {
			raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", member))
			_, rest, _ := strings.Cut(string(raw), ") ")
			if fields := strings.Fields(rest); len(fields) > 12 {
				user, _ := strconv.Atoi(fields[11])
				system, _ := strconv.Atoi(fields[12])
				sum += time.Duration(user+system) * 10 * time.Millisecond
			}
		}
	}
	return sum
}

// orDefault returns where built programs are kept.
func orDefault(path string) string {
	home, _ := os.UserCacheDir()
	return cmp.Or(path, filepath.Join(home, "switchyard", "tunnels"))
}
