package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/selfsigned"
)

// measured is what one tunnel showed over one link.
type measured struct {
	up, down  float64 // MB/s from and to the workstation
	p50, p99  float64 // ms of an echo on an open connection
	perGB     float64 // seconds of processors, of both ends of the tunnel
	connected int     // of 1,000 connections at once
}

const crowd = 1000

// client connects from the proxy's namespace, and sends the purpose of the connection.
func (l *lab) client(address string, want byte) (c net.Conn, err error) {
	err = inside(l.far, func() (err error) {
		c, err = net.DialTimeout("tcp4", address, 10*time.Second)
		return err
	})
	if err == nil {
		_, err = c.Write([]byte{want})
	}
	return c, err
}

// against measures our tunnel and the others over links of some round trips, and prints ratios.
func against(roundTrips []time.Duration, only string, duration time.Duration, s site) error {
	results := map[string]map[time.Duration]measured{}
	for _, roundTrip := range roundTrips {
		l, err := newLab(roundTrip)
		if err != nil {
			return err
		}
		defer l.Close()
		heading()
		results["tcp"] = at("tcp", results["tcp"], roundTrip, func() (measured, error) { return l.measureDirect(roundTrip, duration) })
		for _, t := range tunnels {
			if only != "" && !strings.Contains(","+only+",", ","+t.name+",") {
				continue
			}
			results[t.name] = at(t.name, results[t.name], roundTrip, func() (measured, error) { return l.measureTunnel(t.open, roundTrip, duration, s) })
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	verdicts(results, roundTrips)
	return nil
}

// at adds a measurement, or prints why there is none: the others continue.
func at(name string, all map[time.Duration]measured, roundTrip time.Duration, do func() (measured, error)) map[time.Duration]measured {
	if all == nil {
		all = map[time.Duration]measured{}
	}
	m, err := do()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s is not measured: %v\n", name, err)
		return all
	}
	row(name, roundTrip, m)
	all[roundTrip] = m
	return all
}

func (l *lab) measureDirect(roundTrip, duration time.Duration) (measured, error) {
	p := &programs{lab: l}
	defer p.Close()
	if err := p.ourselves(l.near, "-service", directAddress); err != nil {
		return measured{}, err
	}
	return p.measure(directAddress, roundTrip, duration)
}

func (l *lab) measureTunnel(open func(*programs, site) error, roundTrip, duration time.Duration, s site) (measured, error) {
	service := &programs{lab: l}
	defer service.Close()
	if err := service.ourselves(l.near, "-service", serviceAddress); err != nil {
		return measured{}, err
	}
	p := &programs{lab: l}
	defer p.Close()
	if err := errors.Join(open(p, s), p.await(1)); err != nil {
		return measured{}, err
	}
	return p.measure(entrance(0), roundTrip, duration)
}

func (p *programs) measure(address string, roundTrip, duration time.Duration) (m measured, err error) {
	echo, err := p.lab.client(address, wantEcho)
	if err != nil {
		return m, err
	}
	times, err := echoes(echo, roundTrip)
	if err != nil {
		return m, err
	}
	_ = echo.Close()
	m.p50, m.p99 = figures.Millis(times, .5), figures.Millis(times, .99)
	before := p.cpu()
	var all int64
	for want, rate := range map[byte]*float64{wantSource: &m.up, wantSink: &m.down} {
		c, err := p.lab.client(address, want)
		if err != nil {
			return m, err
		}
		var n int64
		*rate, n = stream(c, want, duration)
		all += n
		_ = c.Close()
	}
	m.perGB = (p.cpu() - before).Seconds() / (float64(all) / 1e9)
	m.connected = p.crowd(address, crowd)
	return m, nil
}

// echoes asks and answers 64 bytes, one after another.
func echoes(c net.Conn, roundTrip time.Duration) (times []time.Duration, err error) {
	rounds := 3000
	if roundTrip > 0 {
		rounds = int(3 * time.Second / roundTrip)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 64)
	for range rounds {
		began := time.Now()
		if _, err := c.Write(buf); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// stream returns how many MB pass each second once the connection is at speed, and how many bytes
// passed in all. Written bytes count when they are accepted, which over seconds equals sending.
func stream(c net.Conn, want byte, duration time.Duration) (rate float64, all int64) {
	var passed atomic.Int64
	go func() {
		buf := make([]byte, 64<<10)
		for {
			var n int
			var err error
			if want == wantSource {
				n, err = c.Read(buf)
			} else {
				n, err = c.Write(buf)
			}
			passed.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	time.Sleep(duration / 3)
	began, before := time.Now(), passed.Load()
	time.Sleep(duration * 2 / 3)
	return float64(passed.Load()-before) / 1e6 / time.Since(began).Seconds(), passed.Load()
}

// crowd opens n connections at once, and returns how many have an answer within ten seconds.
func (p *programs) crowd(address string, n int) int {
	conns := p.lab.open(func(int) string { return address }, n, 32)
	defer closeAll(conns)
	return len(conns)
}

// open opens n connections, some of them concurrently, each to a separate address or the same, and
// returns those that got a response.
func (l *lab) open(address func(n int) string, n, together int) (conns []net.Conn) {
	var lock sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan bool, together)
	for i := range n {
		turns <- true
		wg.Go(func() {
			defer func() { <-turns }()
			c, err := l.client(address(i), wantEcho)
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = c.Write([]byte("x"))
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				_ = c.Close()
				return
			}
			_ = c.SetDeadline(time.Time{})
			lock.Lock()
			conns = append(conns, c)
			lock.Unlock()
		})
	}
	wg.Wait()
	return conns
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// idle returns how many KiB more the proxy uses for each of n idle connections, over ten
// sessions.
func idle(n int, s site) (perConnection float64, there int, err error) {
	l, err := newLab(0)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	p := &programs{lab: l}
	defer p.Close()
	sessions := (n+999)/1000 + 1
	if err := errors.Join(p.ourselves(l.near, "-service", serviceAddress), openCarriers(p, s, sessions), p.await(sessions)); err != nil {
		return 0, 0, err
	}
	before, _, err := process.Memory(p.far[0])
	if err != nil {
		return 0, 0, err
	}
	conns := l.open(func(i int) string { return entrance(i % sessions) }, n, 64)
	defer closeAll(conns)
	time.Sleep(3 * time.Second)
	after, _, err := process.Memory(p.far[0])
	return (after - before) * 1024 / float64(max(1, len(conns))), len(conns), err
}

func newSite(cache string) (s site, err error) {
	s.cache = cache
	if s.folder, err = os.MkdirTemp("", "bench-tunnels-"); err != nil {
		return s, err
	}
	made, err := selfsigned.New("tunnel")
	if err != nil {
		return s, err
	}
	return s, errors.Join(os.MkdirAll(cache, 0o755), s.write("cert.pem", string(made.Cert)), s.write("key.pem", string(made.Key)))
}

func (s site) Close() error { return os.RemoveAll(filepath.Clean(s.folder)) }

// measureAll takes all measurements of the operator's tunnel.
func measureAll(roundTrips []time.Duration) (err error) {
	s, err := newSite(orDefault(options.cache))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := against(roundTrips, options.only, options.duration, s); err != nil {
		return err
	}
	for _, roundTrip := range roundTrips {
		if roundTrip == 0 || options.cuts == 0 { // A plain veth is not cut.
			continue
		}
		if err := back(options.cuts, roundTrip, s); err != nil {
			return err
		}
	}
	if options.idle == 0 {
		return nil
	}
	each, there, err := idle(options.idle, s)
	if err != nil {
		return err
	}
	figures.AtLeast(os.Stdout, "tunnels-idle", float64(there), "connections", float64(options.idle))
	figures.AtMost(os.Stdout, "tunnels-idle-memory", each, "KiB", 32)
	return nil
}
