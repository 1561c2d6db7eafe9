package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"switchyard.dev/tests/figures"
)

// quantity is one thing that is measured of a load.
type quantity struct {
	name, unit string
	value      float64
	target     float64 // 0: none
}

// quantities are all that was measured, for each load in the same order.
func (m measured) quantities() []quantity {
	want := m.targets()
	return []quantity{
		{"last-p50", "ms", figures.Millis(m.last, 0.5), want.p50},
		{"last-p99", "ms", figures.Millis(m.last, 0.99), want.p99},
		{"last-max", "ms", figures.Millis(m.last, 1), 0},
		{"each-p50", "ms", figures.Millis(m.each, 0.5), 0},
		{"each-p99", "ms", figures.Millis(m.each, 0.99), 0},
		{"sent-per-change", "KiB", m.perChange, 0},
		{"responses-per-change", "responses", m.responses, 0},
		{"cut-off", "streams", float64(m.again), 0},
		{"storm", "s", m.storm.Seconds(), 0},
		{"memory", "MiB", m.memory, want.memory},
		{"heap", "MiB", m.heap, 0},
		{"cpu-server", "s-per-s", m.server, 0},
		{"cpu-clients", "s-per-s", m.clients, 0},
		{"cpu-others-on-this-machine", "s-per-s", m.others, 0},
	}
}

// printTable prints all measurements as a table.
func printTable(w io.Writer, all []measured) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "shape\tsystem\t")
	for _, q := range (measured{}).quantities() {
		fmt.Fprintf(t, "%s %s\t", q.name, q.unit)
	}
	fmt.Fprintln(t)
	for _, m := range all {
		fmt.Fprintf(t, "%s\t%s\t", m.Load, m.System)
		for _, q := range m.quantities() {
			fmt.Fprintf(t, "%.4g\t", q.value)
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // it writes to the standard output
	fmt.Fprintln(w)
}

// targets of one shape; 0 is none.
type targets struct{ p50, p99, memory float64 }

func (l Load) targets() targets {
	t := targets{memory: 512}
	switch {
	case l.Workloads > 1 && l.Streams <= 500:
		t.p50, t.p99 = 30, 150
	case l.Workloads > 1 && l.Streams <= 5000:
		t.p99 = 1500
	}
	return t
}

// perStream is how much more memory a stream may take with TLS, in KiB.
const perStream = 40

// ofTLS are the quantities that TLS may change.
var ofTLS = []string{"last-p50", "last-p99", "storm", "memory", "heap", "cpu-server", "cpu-clients"}

// printTLS prints what TLS costs; plain is the same shape without.
func (m measured) printTLS(w io.Writer, plain measured) {
	beside, suffix := figures.Beside("plain").AtMost, "-"+m.name()
	for i, without := range plain.quantities() {
		if q := m.quantities()[i]; slices.Contains(ofTLS, q.name) {
			beside(w, "xds-tls-"+q.name+suffix, q.value, q.unit, 0, without.value)
		}
	}
	figures.AtMost(w, "xds-tls-memory-more-per-stream"+suffix, (m.memory-plain.memory)*1024/float64(m.Streams), "KiB", perStream)
	figures.AtMost(w, "xds-tls-heap-more-per-stream"+suffix, (m.heap-plain.heap)*1024/float64(m.Streams), "KiB", perStream)
}

// printFigures prints one line for each number; beside is the same shape with
// go-control-plane.
func (m measured) printFigures(w io.Writer, beside measured) {
	suffix := "-" + m.name()
	if m.Form == asWhole {
		suffix += "-whole"
	}
	theirs := beside.quantities()
	for i, q := range m.quantities() {
		figures.Beside("go-control-plane").AtMost(w, "xds-"+q.name+suffix, q.value, q.unit, q.target, theirs[i].value)
	}
}
