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
	fmt.Printf("%-12s %-6s %8s %8s %8s %8s %8s %8s %7s %8s %8s %8s %8s\n",
		"tunnel", "rtt", "up MB/s", "down", "first ms", "p50 ms", "p99 ms", "CPU s/GB", "of 1000", "kept p50", "kept p99", "new p50", "new p99")
}

func row(name string, roundTrip time.Duration, m measured) {
	fmt.Printf("%-12s %-6s %8.1f %8.1f %8.2f %8.2f %8.2f %8.2f %7d %8.2f %8.2f %8.2f %8.2f\n",
		name, roundTrip, m.up, m.down, m.first, m.p50, m.p99, m.perGB, m.connected, m.kept, m.keptP99, m.opening, m.openedP99)
}

// Figures of a measurement.
func up(m measured) float64        { return m.up }
func down(m measured) float64      { return m.down }
func first(m measured) float64     { return m.first }
func echoP50(m measured) float64   { return m.p50 }
func echoP99(m measured) float64   { return m.p99 }
func perGB(m measured) float64     { return m.perGB }
func connected(m measured) float64 { return float64(m.connected) }
func kept(m measured) float64      { return m.kept }
func keptP99(m measured) float64   { return m.keptP99 }
func opening(m measured) float64   { return m.opening }
func openedP99(m measured) float64 { return m.openedP99 }

// verdicts prints the figures of a tunnel, the subject, with their targets, beside those of the others.
func verdicts(prefix, subject string, results all) {
	out := os.Stdout
	for _, roundTrip := range options.roundTrips {
		if len(results[subject][roundTrip]) == 0 || len(results["tcp"][roundTrip]) == 0 {
			continue // not measured, which was printed
		}
		at := "-" + roundTrip.String()
		added := func(figure func(measured) float64) float64 {
			return results.of(subject, roundTrip, figure) - results.of("tcp", roundTrip, figure)
		}
		share := func(than string, atLeast float64) {
			if len(results[than][roundTrip]) == 0 {
				return
			}
			of := func(figure func(measured) float64) float64 {
				return 100 * results.of(subject, roundTrip, figure) / results.of(than, roundTrip, figure)
			}
			figures.AtLeast(out, prefix+"-up-of-"+than+at, of(up), "%", atLeast)
			figures.AtLeast(out, prefix+"-down-of-"+than+at, of(down), "%", atLeast)
		}
		for _, than := range []string{"frp", "chisel", "ssh", "konnectivity", "remotedialer"} {
			share(than, 100)
		}
		share("tls", 60)
		if roundTrip > 0 {
			share("tcp", 90)
			figures.AtMost(out, prefix+"-echo-p99-over-tcp"+at, added(echoP99)/1e3/roundTrip.Seconds(), "round trips", 1.1)
			figures.AtMost(out, prefix+"-first-echo-over-tcp"+at, added(first)/1e3/roundTrip.Seconds(), "round trips", 1.1)
		}
		figures.Print(out, prefix+"-added-p50"+at, added(echoP50), "ms")
		figures.Print(out, prefix+"-added-p99"+at, added(echoP99), "ms")
		figures.Print(out, prefix+"-cpu"+at, results.of(subject, roundTrip, perGB), "s/GB")
	}
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
