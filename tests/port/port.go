// Package port finds free ports for servers with a configured address that listen on it again after
// a restart.
package port

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports to choose from. Linux uses those from 32768 on for connections
// (net.ipv4.ip_local_port_range), so another process could take the port of a server that is down
// for a moment.
const (
	lowest = 10_000
	above  = 32_768
)

// Free returns a port that nothing listens on at these addresses, at 127.0.0.1 when none are given.
// An error when it finds none.
func Free(ips ...string) (int, error) {
	if len(ips) == 0 {
		ips = []string{"127.0.0.1"}
	}
	err := error(nil)
	for range 50 {
		port := lowest + rand.IntN(above-lowest)
		if err = listen(port, ips); err == nil {
			return port, nil
		}
	}
	return 0, errors.Join(errors.New("no port is free"), err)
}

// Of returns a port that is free for a test, as Free does.
func Of(t testing.TB, ips ...string) int {
	t.Helper()
	port, err := Free(ips...)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// listen reports, as an error, that something else listens on a port.
func listen(port int, ips []string) error {
	for _, ip := range ips {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		defer l.Close()
	}
	return nil
}
