package main

import (
	"errors"
	"time"

	"switchyard.dev/tests/bench/tunnels/load"
	"switchyard.dev/tests/figures"
)

const (
	// keptConnections are enough for 200 requests a second over 100 ms.
	keptConnections = 64
	// keptRate and newRate are the requests a second on kept and on new connections.
	keptRate, newRate = 200, 25
	requestsFor       = 3 * time.Second
)

// requests measures requests at a rate, on kept connections and each on a new one.
func (p *programs) requests(address string, m *measured) error {
	conns := open(p.lab, func(int) string { return address }, keptConnections, 16)
	defer closeAll(conns)
	if len(conns) < keptConnections {
		return errors.New("not all connections were opened")
	}
	times, err := load.AtRate(keptRate, requestsFor, load.OnKept(conns))
	if err != nil {
		return err
	}
	m.kept, m.keptP99 = figures.Millis(times, .5), figures.Millis(times, .99)
	times, err = load.AtRate(newRate, requestsFor, func() error {
		c, err := client(p.lab, address, wantEcho)
		if err != nil {
			return err
		}
		defer c.Close()
		return load.Request(c)
	})
	m.opening, m.openedP99 = figures.Millis(times, .5), figures.Millis(times, .99)
	return err
}
