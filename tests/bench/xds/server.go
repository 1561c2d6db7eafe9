package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tools/wait"
)

// Server is the process of the server, as the first one calls it: a log, the
// table that follows from it, and one of the systems that serve it.
type Server struct {
	// profiles is a folder for profiles, or "".
	profiles string

	load    Load
	log     *frame.Writer
	view    *view.View
	receipt *receipt
	system  system
	sent    *counted
}

// system is what serves the routes of a view.
type system interface {
	// serve serves on a listener, for good.
	serve(net.Listener) error
	// due returns the version of every resource that follows from a table, by name,
	// once it is the one that is served.
	due(context.Context, table.Table) (map[string]string, error)
}

// Served is the address of the server, and its TLS identity; empty for plaintext.
type Served struct {
	Address string
	Bundle  []byte
}

// Serve begins to serve what a load has at first.
func (s *Server) Serve(l Load, at *Served) (err error) {
	ctx := context.Background()
	s.load, s.receipt = l, newReceipt(l)
	if s.log, err = frame.Begin(ctx, memory.New(), l.shop().Present(l.Sandboxes)...); err != nil {
		return err
	}
	if s.view, err = view.New(view.Config{Log: s.log.Log}); err != nil {
		return err
	}
	go func() { lasts(s.view.Run(ctx)) }()
	if _, err := s.view.WaitWhole(ctx); err != nil {
		return err
	}
	switch l.System {
	case ours:
		s.system, err = newOurs(s.view, s.receipt, nil)
	case encrypted:
		var secure credentials.TransportCredentials
		if secure, at.Bundle, err = certify(); err == nil {
			s.system, err = newOurs(s.view, s.receipt, secure)
		}
	default:
		s.system, err = newSnapshots(s.view, s.receipt)
	}
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.sent = &counted{Listener: listener}
	go func() { lasts(s.system.serve(s.sent)) }()
	at.Address = listener.Addr().String()
	return nil
}

// lasts ends the process when something ends that lasts as long as it does.
func lasts(err error) { panic(fmt.Sprint("the server has ended: ", err)) }

// Joined answers once every stream has acknowledged its first routes.
func (s *Server) Joined(struct{}, *struct{}) error {
	return s.await("first acknowledgements", func() int { joined, _ := s.receipt.state(); return s.load.Streams - joined })
}

func (*Server) await(what string, missing func() int) error {
	return wait.Until(context.Background(), patience, what, func() error {
		if n := missing(); n > 0 {
			return fmt.Errorf("%d are missing", n)
		}
		return nil
	})
}

// Outcome is the result of the changes, as measured by the server.
type Outcome struct {
	// Last is, for each change, the time from the call of Append to the last
	// acknowledgement of the streams concerned, and Each that of each.
	Last, Each []time.Duration
	Lasted     time.Duration
	// Bytes were written to all connections.
	Bytes int64
	// Due is what the clients are to have now.
	Due map[string]string
}

// Change makes the changes of the load, evenly, and answers when all of them are
// acknowledged.
func (s *Server) Change(_ struct{}, o *Outcome) (err error) {
	end, err := frame.Profile(s.profiles, s.load.System+"-"+s.load.Form+"-"+s.load.name())
	if err != nil {
		return err
	}
	before, begun := s.sent.bytes.Load(), time.Now()
	if _, err := frame.Evenly(s.load.changes(), s.load.PerSecond, func(n int) error {
		f, workload := s.load.change(n)
		return s.receipt.make(workload, func() (uint64, error) {
			pos, err := s.log.State(context.Background(), f)
			return pos.Seq, err
		})
	}); err != nil {
		return err
	}
	if err := s.await("acknowledgements", func() int { _, owed := s.receipt.state(); return owed }); err != nil {
		return err
	}
	o.Lasted, o.Bytes = time.Since(begun), s.sent.bytes.Load()-before
	if err := end(); err != nil {
		return err
	}
	o.Last, o.Each = s.receipt.times()
	t, _ := s.view.Current()
	o.Due, err = s.system.due(context.Background(), t)
	return err
}

// Heap returns the heap in use, in bytes, after a collection.
func (s *Server) Heap(_ struct{}, bytes *uint64) error {
	*bytes = frame.Heap()
	return nil
}

// counted is a listener that counts the bytes written to its connections.
type counted struct {
	net.Listener
	bytes atomic.Int64
}

// Accept is net.Listener's.
func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countedConn{conn, &c.bytes}, nil
}

type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

// Write is net.Conn's.
func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}
