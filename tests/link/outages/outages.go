package outages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"switchyard.dev/tests/figures"
)

// Run has the parameters of a measurement.
type Run struct {
	// Lengths are those of the interruptions.
	Lengths []Length
	// Agents is how many lose their server, Lost for how long, and Revoked how many tokens are revoked.
	Agents, Revoked int
	Lost            time.Duration
	// Requests is how many are sent through random replicas, and Kills how often a replica is killed.
	Requests, Kills int
	// Only is the part to run: cuts, herd, proxy or replicas; "": all.
	Only string
	// Scratch is a folder for files and logs.
	Scratch string
}

// Figures are the results.
type Figures struct {
	cuts []served
	// Herd, Proxy and Replicas are nil where they did not run.
	herd     *Herd
	proxy    *Proxy
	replicas *Replicas
}

// Of returns the number of rounds of a kind that were served.
func (f *Figures) Of(kind string) (n int) {
	for _, s := range f.cuts {
		if s.kind == kind {
			n++
		}
	}
	return n
}

// Run runs it. The error is why it could not be measured.
func (r Run) Run(ctx context.Context) (f *Figures, err error) {
	f = &Figures{}
	w, err := newWorld(ctx, r.Scratch)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	parts := []struct {
		name string
		do   func() error
	}{
		{"proxy", func() error { p, err := w.proxied(); f.proxy = &p; return err }},
		{"herd", func() error { h, err := w.herd(r.Agents, r.Lost, r.Revoked); f.herd = &h; return err }},
		{"replicas", func() error { c, err := w.replicas(r.Requests, r.Kills); f.replicas = &c; return err }},
		{"cuts", func() (err error) { f.cuts, err = w.cuts(r.Lengths); return err }},
	}
	for _, p := range parts {
		if r.Only == "" || r.Only == p.name {
			if err := p.do(); err != nil {
				return f, fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return f, nil
}

// servedWithin is the target of an answer after an interruption, and of failures after the death of a replica.
const servedWithin = 2.0

// Print prints the figures.
func (f *Figures) Print(w io.Writer) {
	if f.proxy != nil {
		figures.Text(w, "proxy-connections", f.proxy.Connects, "connections", "1, at a round trip of 300 ms", f.proxy.Connects == 1)
		figures.Print(w, "proxy-first-request-after-the-start", f.proxy.Served.Seconds(), "s")
	}
	if h := f.herd; h != nil {
		figures.AtMost(w, fmt.Sprintf("herd-%d-agents-back-after", h.Agents), h.Back.Seconds(), "s", 15)
		figures.Text(w, "herd-handshakes", h.Busiest, "in the busiest second", fmt.Sprintf("at most 200; %.4g a second", h.Rate), h.Busiest <= 200)
		if len(h.Revoked) > 0 {
			figures.AtMost(w, "revoked-token-session-ended-within", slices.Max(h.Revoked).Seconds(), "s", 1)
			figures.Print(w, "revoked-token-session-ended-within-p50", figures.Median(h.Revoked).Seconds(), "s")
		}
	}
	f.printReplicas(w)
	for _, k := range kinds {
		f.printCuts(w, k)
	}
}

func (f *Figures) printReplicas(w io.Writer) {
	c := f.replicas
	if c == nil {
		return
	}
	figures.Text(w, "replicas-requests-that-failed", c.Failed, "requests", fmt.Sprintf("0 of %d", c.Requests), c.Failed == 0 && c.Requests > 0)
	if c.Kills > 0 {
		figures.AtMost(w, fmt.Sprintf("replicas-failures-after-a-kill-worst-of-%d", c.Kills), slices.Max(c.Failures).Seconds(), "s", servedWithin)
		figures.Print(w, "replicas-longest-request-after-a-kill", c.Longest.Seconds(), "s")
	}
	for _, note := range c.notes[:min(len(c.notes), 10)] {
		fmt.Fprintln(w, "  ", note)
	}
}

// printCuts prints the rounds of one kind.
func (f *Figures) printCuts(w io.Writer, k kind) {
	var counted []time.Duration
	worst, rounds := map[time.Duration]time.Duration{}, map[time.Duration]int{}
	for _, s := range f.cuts {
		if s.kind == k.name {
			counted = append(counted, s.counted)
			worst[s.length] = max(worst[s.length], s.took)
			rounds[s.length]++
		}
	}
	if len(counted) == 0 {
		return
	}
	without := ""
	if k.detects > 0 {
		without = fmt.Sprintf(", without the %.0f s of the detection", k.detects.Seconds())
	}
	p99 := figures.Quantile(counted, 0.99).Seconds()
	figures.Text(w, k.name+"-first-request-p99", fmt.Sprintf("%.3g", p99), "s", fmt.Sprintf("at most 2, of %d%s", len(counted), without), p99 <= servedWithin)
	figures.Print(w, k.name+"-first-request-worst", slices.Max(counted).Seconds(), "s")
	for _, length := range slices.Sorted(maps.Keys(rounds)) {
		figures.Print(w, fmt.Sprintf("%s-of-%.0f-s-worst-of-%d-from-its-end", k.name, length.Seconds(), rounds[length]), worst[length].Seconds(), "s")
	}
}
