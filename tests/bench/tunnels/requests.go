package main

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

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
	times, err := atRate(keptRate, requestsFor, onKept(conns))
	if err != nil {
		return err
	}
	m.kept, m.keptP99 = figures.Millis(times, .5), figures.Millis(times, .99)
	times, err = atRate(newRate, requestsFor, func() error {
		c, err := client(p.lab, address, wantEcho)
		if err != nil {
			return err
		}
		defer c.Close()
		return request(c)
	})
	m.opening, m.openedP99 = figures.Millis(times, .5), figures.Millis(times, .99)
	return err
}

// onKept returns a function that sends a request on one of some connections that has none.
func onKept(conns []net.Conn) func() error {
	free := make(chan net.Conn, len(conns))
	for _, c := range conns {
		free <- c
	}
	return func() error {
		c := <-free
		defer func() { free <- c }()
		return request(c)
	}
}

// request sends 64 bytes, and reads as many.
func request(c net.Conn) error {
	buf := make([]byte, 64)
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write(buf); err != nil {
		return err
	}
	_, err := io.ReadFull(c, buf)
	return err
}

// atRate begins so many requests a second, whether or not others have ended, and returns how long after
// its time each ended.
func atRate(perSecond int, duration time.Duration, do func() error) (times []time.Duration, err error) {
	var lock sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for due := time.Duration(0); due < duration; due += time.Second / time.Duration(perSecond) {
		time.Sleep(time.Until(began.Add(due)))
		all.Go(func() {
			failed := do()
			took := time.Since(began) - due
			lock.Lock()
			defer lock.Unlock()
			times, err = append(times, took), errors.Join(err, failed)
		})
	}
	all.Wait()
	return times, err
}
