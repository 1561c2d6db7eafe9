package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
)

// settings are those of the command line.
type settings struct {
	rate, slow, rounds int
	slice, idle, long  time.Duration
	kills, requests    int
	only, cache        string
}

func run(ctx context.Context, s settings, w io.Writer) error {
	if !podnet.Inside() {
		if err := s.install(ctx); err != nil {
			return err
		}
	}
	if err := sidecar.Isolate(container); err != nil {
		return err
	}
	b := &bench{served: &application{}}
	defer b.close()
	var err error
	if b.dir, err = os.MkdirTemp("/tmp", "traffic"); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.app = l.Addr().(*net.TCPAddr).AddrPort()
	go func() { _ = http.Serve(l, b.served) }() //nolint:gosec // for this process alone
	for _, part := range []struct {
		name string
		run  func(context.Context, settings, io.Writer) error
	}{{"idle", b.idle}, {"long", b.long}, {"kill", b.kill}, {"receiver", b.receiver}, {"goreplay", b.goreplay}} {
		if !s.measures(part.name) {
			continue
		}
		if err := part.run(ctx, s, w); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if !s.measures("cost", "highest") {
		return nil
	}
	b.places = []*place{{name: "bare", address: b.app.String()}}
	if err := errors.Join(b.envoy("envoy", nil, nil), b.tap(), b.extProc(), b.traffic(ctx), b.mitmproxy(ctx, s.cache, s.slow)); err != nil {
		return err
	}
	for _, p := range b.places {
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		if !s.measures("cost") {
			break
		}
		if err := b.compare(s, k, w); err != nil {
			return err
		}
	}
	if s.measures("highest") {
		return b.climb(s, w)
	}
	return nil
}

// measures reports whether one of some parts is to be measured.
func (s settings) measures(parts ...string) bool {
	return s.only == "" || slices.ContainsFunc(strings.Split(s.only, ","), func(one string) bool { return slices.Contains(parts, one) })
}

// measured has the measurements of a place.
type measured struct{ cpu, over, added, p50 []float64 }

// compare measures all places in turn, and prints.
func (b *bench) compare(s settings, k kind, w io.Writer) error {
	all := make([]measured, len(b.places))
	missing := make([]int64, len(b.places))
	for range s.rounds {
		var bare, floor float64
		for i, p := range b.places {
			one, cpu, lost, err := b.measure(p, k, rateOf(p, s.rate), s.slice)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.name, k.name, err)
			}
			p50 := figures.Millis(one.took, 0.5)
			switch p.name {
			case "bare":
				bare = p50
			case "envoy":
				floor = cpu
			}
			m := &all[i]
			m.cpu, m.p50, m.added = append(m.cpu, cpu), append(m.p50, p50), append(m.added, p50-bare)
			if floor > 0 {
				m.over = append(m.over, cpu/floor)
			}
			missing[i] += lost
		}
	}
	most, late := 1.5, 0.15
	if k.body > 0 {
		most, late = 3, 0.25
	}
	for i, p := range b.places {
		name := fmt.Sprintf("traffic-%s-%s", k.name, p.name)
		figures.Print(w, name+"-p50", figures.Median(all[i].p50), "ms")
		if p.processes == nil {
			continue
		}
		figures.Print(w, name+"-cpu", figures.Median(all[i].cpu), "us-per-request")
		if p.name == "traffic" {
			figures.AtMost(w, name+"-cpu-over-envoy", figures.Median(all[i].over), "times", most)
			figures.AtMost(w, name+"-p50-added", figures.Median(all[i].added), "ms", late)
			figures.Text(w, name+"-missing", missing[i], "exchanges", "0", missing[i] == 0)
			continue
		}
		figures.Print(w, name+"-cpu-over-envoy", figures.Median(all[i].over), "times")
		figures.Print(w, name+"-p50-added", figures.Median(all[i].added), "ms")
		if p.captured != nil {
			figures.Print(w, name+"-missing", float64(missing[i]), "exchanges")
		}
	}
	return nil
}

func rateOf(p *place, rate int) int {
	if p.rate > 0 {
		return p.rate
	}
	return rate
}

// settle is how long a capture has for the last exchanges.
const settle = 5 * time.Second

// measure sends requests to a place. It returns the processor time of each in microseconds, and how many the application
// has counted that the capture lacks.
func (b *bench) measure(p *place, k kind, rate int, during time.Duration) (one slice, cpu float64, missing int64, err error) {
	before, served, computed := int64(0), b.served.served.Load(), time.Duration(0)
	if p.captured != nil {
		if before, err = p.captured(); err != nil {
			return one, 0, 0, err
		}
	}
	if computed, err = p.computed(); err != nil {
		return one, 0, 0, err
	}
	if one, err = p.load.run(k, rate, during); err != nil {
		return one, 0, 0, err
	}
	served = b.served.served.Load() - served
	if p.captured != nil {
		for until := time.Now().Add(settle); ; time.Sleep(10 * time.Millisecond) {
			now, err := p.captured()
			if missing = served - (now - before); missing == 0 || err != nil || time.Now().After(until) {
				break
			}
		}
	}
	after, err := p.computed()
	return one, float64((after - computed).Nanoseconds()) / 1e3 / float64(max(one.answered, 1)), missing, err
}

// computed is how long the processes of a place have computed, by the kernel's count of each thread.
func (p *place) computed() (sum time.Duration, err error) {
	for _, pid := range p.processes {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/schedstat", pid)) // The pattern is well formed.
		if len(files) == 0 {
			return 0, fmt.Errorf("process %d of %s has ended", pid, p.name)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if errors.Is(err, os.ErrNotExist) {
				continue // a thread that has ended
			}
			first, _, _ := strings.Cut(string(text), " ")
			n, also := strconv.ParseInt(first, 10, 64)
			if err := errors.Join(err, also); err != nil {
				return 0, err
			}
			sum += time.Duration(n)
		}
	}
	return sum, nil
}

// climb finds the highest rate at which each place serves all requests and captures all.
func (b *bench) climb(s settings, w io.Writer) error {
	const least, most, enough = 100, 64_000, 0.95
	for _, k := range kinds {
		for _, p := range b.places {
			highest := 0
			for rate := least; rate <= most; rate = rate * 3 / 2 {
				one, _, missing, err := b.measure(p, k, rate, s.slice)
				if err != nil {
					return fmt.Errorf("%s, %s, %d requests a second: %w", p.name, k.name, rate, err)
				}
				if missing > 0 || float64(one.answered) < enough*float64(rate)*one.lasted.Seconds() {
					break
				}
				highest = rate
			}
			figures.Print(w, fmt.Sprintf("traffic-%s-%s-highest", k.name, p.name), float64(highest), "requests-per-s")
		}
	}
	return nil
}
