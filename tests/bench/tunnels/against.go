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

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/bench/tunnels/load"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/selfsigned"
)

// measured is what one tunnel showed over one link.
type measured struct {
	up, down           float64 // MB/s from and to the workstation or the agent
	first              float64 // ms of the first echo of a connection: the tunnel opens it in that time
	p50, p99           float64 // ms of an echo on an open connection
	perGB              float64 // seconds of processors, of both ends of the tunnel
	connected          int     // of 1,000 connections at once
	kept, keptP99      float64 // ms of a request on a kept connection, at 200 a second
	opening, openedP99 float64 // ms of a request on a new connection, with that
}

// part is a part of the measurements.
type part int

const (
	withCrowd    part = iota // 1,000 connections at once
	withRequests             // requests at a rate, on kept and on new connections
	streamsOnly
)

const crowd = 1000

// client connects from the proxy's namespace, and sends the purpose of the connection.
func client(l *lab.Lab, address string, want byte) (c net.Conn, err error) {
	err = lab.Inside(l.Far, func() (err error) {
		if socket, is := strings.CutPrefix(address, connectBy); is {
			c, err = connectThrough(socket)
			return err
		}
		c, err = net.DialTimeout("tcp4", address, 10*time.Second)
		return err
	})
	if err == nil {
		_, err = c.Write([]byte{want})
	}
	return c, err
}

// all are the measurements of each tunnel, by its name and the round trip.
type all map[string]map[time.Duration][]measured

// of returns the median of a figure, 0 where it was not measured.
func (a all) of(name string, roundTrip time.Duration, figure func(measured) float64) float64 {
	var values []float64
	for _, m := range a[name][roundTrip] {
		values = append(values, figure(m))
	}
	return figures.Median(values)
}

// against measures tunnels beside raw TCP over links of some round trips, in so many rounds.
func against(tunnels []tunnel, s site) (all, error) {
	results := all{}
	for _, roundTrip := range options.roundTrips {
		l, err := lab.New(lab.Link{RoundTrip: roundTrip})
		if err != nil {
			return nil, err
		}
		defer l.Close()
		heading()
		for range options.rounds {
			for _, t := range tunnels {
				if !wanted(t.name) {
					continue
				}
				m, err := measureTunnel(l, t, roundTrip, s)
				if err != nil { // the others continue
					fmt.Fprintf(os.Stderr, "%s is not measured: %v\n", t.name, err)
					continue
				}
				row(t.name, roundTrip, m)
				if results[t.name] == nil {
					results[t.name] = map[time.Duration][]measured{}
				}
				results[t.name][roundTrip] = append(results[t.name][roundTrip], m)
			}
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func measureTunnel(l *lab.Lab, t tunnel, roundTrip time.Duration, s site) (measured, error) {
	service := &programs{lab: l}
	defer service.Close()
	if err := service.ourselves(l.Near, "-service", serviceAddress+","+directAddress); err != nil {
		return measured{}, err
	}
	p := &programs{lab: l}
	defer p.Close()
	address := entrance(0)
	if t.address != nil {
		address = t.address(s)
	}
	if err := errors.Join(t.open(p, s), p.awaitOne(address)); err != nil {
		return measured{}, err
	}
	return p.measure(address, roundTrip, t.part)
}

func (p *programs) measure(address string, roundTrip time.Duration, what part) (m measured, err error) {
	echo, err := client(p.lab, address, wantEcho)
	if err != nil {
		return m, err
	}
	times, err := load.Echoes(echo, roundTrip)
	if err != nil {
		return m, err
	}
	_ = echo.Close()
	m.first = figures.Millis(times[:1], .5)
	m.p50, m.p99 = figures.Millis(times[1:], .5), figures.Millis(times[1:], .99)
	before := p.cpu()
	var bytes int64
	for want, rate := range map[byte]*float64{wantSource: &m.up, wantSink: &m.down} {
		c, err := client(p.lab, address, want)
		if err != nil {
			return m, err
		}
		var n int64
		*rate, n = stream(c, want, options.duration)
		bytes += n
		_ = c.Close()
	}
	m.perGB = (p.cpu() - before).Seconds() / (float64(bytes) / 1e9)
	switch what {
	case withCrowd:
		conns := open(p.lab, func(int) string { return address }, crowd, 32)
		m.connected = len(conns)
		closeAll(conns)
	case withRequests:
		err = p.requests(address, &m)
	}
	return m, err
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

// open opens n connections, some of them concurrently, each to a separate address or the same, and
// returns those that got a response.
func open(l *lab.Lab, address func(n int) string, n, together int) (conns []net.Conn) {
	var lock sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan bool, together)
	for i := range n {
		turns <- true
		wg.Go(func() {
			defer func() { <-turns }()
			c, err := client(l, address(i), wantEcho)
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
	l, err := lab.New(lab.Link{})
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	p := &programs{lab: l}
	defer p.Close()
	sessions := (n+999)/1000 + 1
	if err := errors.Join(p.ourselves(l.Near, "-service", serviceAddress), openCarriers(p, s, sessions), p.await(sessions)); err != nil {
		return 0, 0, err
	}
	before, _, err := process.Memory(p.far[0])
	if err != nil {
		return 0, 0, err
	}
	conns := open(l, func(i int) string { return entrance(i % sessions) }, n, 64)
	defer closeAll(conns)
	time.Sleep(3 * time.Second)
	after, _, err := process.Memory(p.far[0])
	return (after - before) * 1024 / float64(max(1, len(conns))), len(conns), err
}

func newSite(cache, source string) (s site, err error) {
	s.cache, s.source = cache, source
	if s.folder, err = os.MkdirTemp("", "bench-tunnels-"); err != nil {
		return s, err
	}
	made, err := selfsigned.New("tunnel", net.ParseIP(lab.NearAddress), net.ParseIP(lab.FarAddress))
	if err != nil {
		return s, err
	}
	return s, errors.Join(os.MkdirAll(cache, 0o755), s.write("cert.pem", string(made.Cert)), s.write("key.pem", string(made.Key)))
}

func (s site) Close() error { return os.RemoveAll(filepath.Clean(s.folder)) }

// measureAll takes all measurements of the operator's tunnel.
func measureAll(s site) (err error) {
	results, err := against(tunnels, s)
	if err != nil {
		return err
	}
	verdicts("tunnels", "carrier", results)
	for _, roundTrip := range options.roundTrips {
		figures.AtLeast(os.Stdout, "tunnels-connected-at-once-"+roundTrip.String(), results.of("carrier", roundTrip, connected), "connections", crowd)
	}
	for _, roundTrip := range options.roundTrips {
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
