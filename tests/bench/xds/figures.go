package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"switchyard.dev/tests/figures"
)

// table prints all that was measured, for people.
func printTable(w io.Writer, all []measured) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "shape\tsystem\tlast p50\tp99\tmax\teach p50\tp99\tKiB per change\tresponses\tcut off\tstorm\tmost memory\theap\tcpu server\tclients\tothers\t")
	for _, m := range all {
		fmt.Fprintf(t, "%s\t%s\t%.1f ms\t%.1f\t%.1f\t%.1f ms\t%.1f\t%.0f\t%.0f\t%d\t%.2f s\t%.0f MiB\t%.0f MiB\t%.2f\t%.2f\t%.2f\t\n",
			m.Load, m.System, figures.Millis(m.last, 0.5), figures.Millis(m.last, 0.99), figures.Millis(m.last, 1), figures.Millis(m.each, 0.5), figures.Millis(m.each, 0.99),
			m.perChange, m.responses, m.again, m.storm.Seconds(), m.memory, m.heap, m.server, m.clients, m.others)
	}
	_ = t.Flush() // what it writes to is the standard output
	fmt.Fprintln(w)
}

// figure prints one number, and the same go-control-plane.
var figure = figures.Beside("go-control-plane").AtMost

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

// printTLS prints what TLS costs; plain is the same shape without.
func (m measured) printTLS(w io.Writer, plain measured) {
	beside, suffix := figures.Beside("plain").AtMost, "-"+m.name()
	beside(w, "xds-tls-last-p50"+suffix, figures.Millis(m.last, 0.5), "ms", 0, figures.Millis(plain.last, 0.5))
	beside(w, "xds-tls-last-p99"+suffix, figures.Millis(m.last, 0.99), "ms", 0, figures.Millis(plain.last, 0.99))
	beside(w, "xds-tls-storm"+suffix, m.storm.Seconds(), "s", 0, plain.storm.Seconds())
	beside(w, "xds-tls-memory"+suffix, m.memory, "MiB", 0, plain.memory)
	beside(w, "xds-tls-heap"+suffix, m.heap, "MiB", 0, plain.heap)
	beside(w, "xds-tls-memory-more-per-stream"+suffix, (m.memory-plain.memory)*1024/float64(m.Streams), "KiB", perStream, 0)
	beside(w, "xds-tls-heap-more-per-stream"+suffix, (m.heap-plain.heap)*1024/float64(m.Streams), "KiB", perStream, 0)
	beside(w, "xds-tls-cpu-server"+suffix, m.server, "s-per-s", 0, plain.server)
	beside(w, "xds-tls-cpu-clients"+suffix, m.clients, "s-per-s", 0, plain.clients)
}

// printFigures prints one line for each number; beside is the same shape with
// go-control-plane.
func (m measured) printFigures(w io.Writer, beside measured) {
	suffix := "-" + m.name()
	if m.Form == asWhole {
		suffix += "-whole"
	}
	want := m.targets()
	figure(w, "xds-last-p50"+suffix, figures.Millis(m.last, 0.5), "ms", want.p50, figures.Millis(beside.last, 0.5))
	figure(w, "xds-last-p99"+suffix, figures.Millis(m.last, 0.99), "ms", want.p99, figures.Millis(beside.last, 0.99))
	figure(w, "xds-last-max"+suffix, figures.Millis(m.last, 1), "ms", 0, figures.Millis(beside.last, 1))
	figure(w, "xds-each-p50"+suffix, figures.Millis(m.each, 0.5), "ms", 0, figures.Millis(beside.each, 0.5))
	figure(w, "xds-each-p99"+suffix, figures.Millis(m.each, 0.99), "ms", 0, figures.Millis(beside.each, 0.99))
	figure(w, "xds-sent-per-change"+suffix, m.perChange, "KiB", 0, beside.perChange)
	figure(w, "xds-responses-per-change"+suffix, m.responses, "responses", 0, beside.responses)
	figure(w, "xds-cut-off"+suffix, float64(m.again), "streams", 0, float64(beside.again))
	figure(w, "xds-storm"+suffix, m.storm.Seconds(), "s", 0, beside.storm.Seconds())
	figure(w, "xds-memory"+suffix, m.memory, "MiB", want.memory, beside.memory)
	figure(w, "xds-heap"+suffix, m.heap, "MiB", 0, beside.heap)
	figure(w, "xds-cpu-server"+suffix, m.server, "s-per-s", 0, beside.server)
	figure(w, "xds-cpu-clients"+suffix, m.clients, "s-per-s", 0, beside.clients)
	figure(w, "xds-cpu-others-on-this-machine"+suffix, m.others, "s-per-s", 0, beside.others)
}
