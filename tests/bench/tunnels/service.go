package main

import (
	"io"
	"net"
)

// The first byte of a connection to the service selects its behaviour.
const (
	wantSink   = 'S' // the service reads
	wantSource = 'D' // the service writes, until it is closed
	wantEcho   = 'E'
)

// runService is the service at the workstation or in the cluster, on addresses in its namespace.
func runService(addresses ...string) error {
	ended := make(chan error)
	for _, address := range addresses {
		l, err := net.Listen("tcp4", address)
		if err != nil {
			return err
		}
		go func() { ended <- each(l, serveOne) }()
	}
	ready()
	return <-ended
}

func serveOne(c net.Conn) {
	defer c.Close()
	var want [1]byte
	if _, err := io.ReadFull(c, want[:]); err != nil {
		return
	}
	switch want[0] {
	case wantSink:
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	case wantSource:
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Write(buf); err != nil {
				return
			}
		}
	case wantEcho:
		buf := make([]byte, 64)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}
