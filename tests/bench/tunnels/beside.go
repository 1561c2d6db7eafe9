package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/bench/tunnels/load"
	"switchyard.dev/tests/figures"
)

const (
	// besideFor is how long streams and requests beside each other are measured.
	besideFor = 5 * time.Second
	// bulkStreams are as many as the issue names, at the delay and loss that it names.
	bulkStreams, bulkRoundTrip, bulkLoss = 10, 100 * time.Millisecond, .01
)

// beside is what requests and streams beside each other showed.
type beside struct{ rate, p50, p99 float64 }

// sideBySide sends requests on some connections, and receives on others what the service sends.
func sideBySide(requests, streams []net.Conn, perSecond int, duration time.Duration) (b beside, err error) {
	var passed atomic.Int64
	for _, c := range streams {
		go func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := c.Read(buf)
				passed.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
	}
	time.Sleep(duration / 2)
	began, before := time.Now(), passed.Load()
	times, err := load.AtRate(perSecond, duration, load.OnKept(requests))
	b.rate = float64(passed.Load()-before) / 1e6 / time.Since(began).Seconds()
	b.p50, b.p99 = figures.Millis(times, .5), figures.Millis(times, .99)
	return b, err
}

// sources opens n connections to an address on which the service sends all that it can.
func sources(l *lab.Lab, address string, n int) (conns []net.Conn, err error) {
	for range n {
		c, err := client(l, address, wantSource)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// underLink does something with an agent and its control plane over a link.
func underLink(link lab.Link, s site, do func(*programs) error) error {
	l, err := lab.New(link)
	if err != nil {
		return err
	}
	defer l.Close()
	p := &programs{lab: l}
	defer p.Close()
	if err := errors.Join(p.ourselves(l.Near, "-service", serviceAddress+","+directAddress), openLink(p, s), p.await(2)); err != nil {
		return err
	}
	return do(p)
}

// stall has 1,000 connections through one link: streams, requests, and one that the client does not read.
func stall(s site) error {
	const streams = 8
	var rates, tails []float64
	for range options.rounds {
		var without, with beside
		for _, to := range []*beside{&without, &with} {
			err := underLink(lab.Link{RoundTrip: 20 * time.Millisecond}, s, func(p *programs) (err error) {
				requests := open(p.lab, func(int) string { return entrance(0) }, crowd-1-streams, 32)
				defer closeAll(requests)
				if len(requests) < crowd-1-streams {
					return errors.New("not all connections were opened")
				}
				other, err := client(p.lab, entrance(0), map[bool]byte{true: wantSource, false: wantEcho}[to == &with])
				if err != nil {
					return err
				}
				defer other.Close()
				time.Sleep(time.Second) // it fills what there is between
				sending, err := sources(p.lab, entrance(0), streams)
				defer closeAll(sending)
				if err != nil {
					return err
				}
				*to, err = sideBySide(requests, sending, keptRate, besideFor)
				return err
			})
			if err != nil {
				return err
			}
		}
		fmt.Printf("1,000 connections, none and one stalled: %.1f and %.1f MB/s, p99 %.1f and %.1f ms\n", without.rate, with.rate, without.p99, with.p99)
		rates, tails = append(rates, with.rate/without.rate), append(tails, with.p99/without.p99)
	}
	figures.AtLeast(os.Stdout, "link-throughput-beside-a-stalled-stream", 100*figures.Median(rates), "%", 95)
	figures.AtMost(os.Stdout, "link-p99-beside-a-stalled-stream", figures.Median(tails), "times", 1.2)
	return nil
}

// where are the connections of the agent that streams are over, beside requests over the first.
var where = []string{"the-same-connection", "the-data-connection", "none"}

// bulk compares one connection for streams and requests with one for each.
func bulk(congestion string, s site) error {
	measured := map[string][]beside{}
	for range options.rounds {
		for connection, name := range where {
			err := underLink(lab.Link{RoundTrip: bulkRoundTrip, Loss: bulkLoss, Congestion: congestion}, s, func(p *programs) (err error) {
				requests := open(p.lab, func(int) string { return entrance(0) }, keptConnections, 16)
				defer closeAll(requests)
				var sending []net.Conn
				if connection < 2 {
					sending, err = sources(p.lab, entrance(connection), bulkStreams)
					defer closeAll(sending)
				}
				if err != nil {
					return err
				}
				b, err := sideBySide(requests, sending, 20, 2*besideFor)
				fmt.Printf("ten streams in %-19s %-5s %5.1f MB/s, requests p50 %.1f ms, p99 %.1f ms\n", name, congestion, b.rate, b.p50, b.p99)
				measured[name] = append(measured[name], b)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	for _, name := range where {
		all := measured[name]
		of := func(figure func(beside) float64) float64 {
			var values []float64
			for _, b := range all {
				values = append(values, figure(b))
			}
			return figures.Median(values)
		}
		prefix := "link-" + congestion + "-bulk-in-" + name
		figures.Print(os.Stdout, prefix, of(func(b beside) float64 { return b.rate }), "MB/s")
		figures.Print(os.Stdout, prefix+"-request-p50", of(func(b beside) float64 { return b.p50 }), "ms")
		figures.Print(os.Stdout, prefix+"-request-p99", of(func(b beside) float64 { return b.p99 }), "ms")
	}
	return nil
}
