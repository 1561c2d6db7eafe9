package main

import (
	"errors"
	"os"
	"time"

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/bench/tunnels/load"
	"switchyard.dev/tests/figures"
)

// tailsFor has two of the times in which BBR measures the round trip: 200 ms and a round trip, every ten seconds.
const tailsFor = 20 * time.Second

// tails has requests through the link, on a TLS connection each, and on one TLS connection without a multiplexer
// (decision record 0066).
func tails(congestion string, s site) error {
	link := lab.Link{RoundTrip: bulkRoundTrip, Congestion: congestion}
	for i, way := range []tunnel{{name: "link", open: openLink}, {name: "tls", open: openPlain}, {name: "one-tls", open: openPlain}} {
		times, err := tail(link, s, way, []int{keptConnections, keptConnections, 1}[i])
		if err != nil {
			return err
		}
		name := way.name + "-" + congestion + "-request-"
		figures.Print(os.Stdout, name+"p99", figures.Millis(times, .99), "ms")
		figures.Print(os.Stdout, name+"most", figures.Millis(times, 1), "ms")
	}
	return nil
}

// tail returns how long requests at a rate took over some connections of a tunnel.
func tail(link lab.Link, s site, way tunnel, n int) ([]time.Duration, error) {
	l, err := lab.New(link)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	p := &programs{lab: l}
	defer p.Close()
	if err := errors.Join(p.ourselves(l.Near, "-service", serviceAddress+","+directAddress), way.open(p, s), p.awaitOne(entrance(0))); err != nil {
		return nil, err
	}
	conns := open(l, func(int) string { return entrance(0) }, n, 16)
	defer closeAll(conns)
	switch {
	case len(conns) < n:
		return nil, errors.New("not all connections were opened")
	case n == 1:
		return load.InARow(conns[0], keptRate, tailsFor)
	}
	return load.AtRate(keptRate, tailsFor, load.OnKept(conns))
}
