package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// runProxy is a proxy that does nothing but carry: connections to an address of its namespace go to
// the session of the same number, of so many.
func runProxy(at string, sessions int, cert, key string) error {
	certificate, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	in, err := net.Listen("tcp4", at)
	if err != nil {
		return err
	}
	p := &proxy{config: carrier.Secure(&tls.Config{Certificates: []tls.Certificate{certificate}}), sessions: map[string]*carrier.Session{}}
	ended := make(chan error)
	for i := range sessions {
		front, err := net.Listen("tcp4", entrance(i))
		if err != nil {
			return err
		}
		go func() { ended <- each(front, func(conn net.Conn) { p.carry(strconv.Itoa(i), conn) }) }()
	}
	go func() { ended <- each(in, p.welcome) }()
	ready()
	return <-ended
}

// each serves the connections of a listener.
func each(l net.Listener, serve func(net.Conn)) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go serve(conn)
	}
}

// proxy knows the newest session of each name.
type proxy struct {
	config   *tls.Config
	failures atomic.Int64

	mu       sync.Mutex
	sessions map[string]*carrier.Session
}

// welcome accepts every workstation.
func (p *proxy) welcome(conn net.Conn) {
	s, hello, err := carrier.Serve(context.Background(), tls.Server(conn, p.config), func(context.Context, *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
		return &tunnelv1.Welcome{User: "bench"}, nil
	})
	if err != nil {
		return
	}
	p.mu.Lock()
	p.sessions[hello.Session] = s
	p.mu.Unlock()
	for { // The workstation's declarations are ignored: it accepts all connections.
		if _, err := s.Receive(context.Background()); err != nil {
			return
		}
	}
}

// carry forwards a connection to the workstation of a session.
func (p *proxy) carry(name string, conn net.Conn) {
	p.mu.Lock()
	s := p.sessions[name]
	p.mu.Unlock()
	if s == nil {
		_ = conn.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stream, err := s.Open(ctx, &tunnelv1.Open{To: &tunnelv1.Open_Inbound{Inbound: &tunnelv1.Inbound{
		Namespace: service.Namespace, Name: service.Name, BaselinePort: servicePort, From: conn.RemoteAddr().String()}}})
	if err != nil {
		if p.failures.Add(1) == 1 && s.Err() == nil {
			fmt.Fprintln(os.Stderr, "proxy:", err)
		}
		_ = conn.Close()
		return
	}
	relay.Pipe(relay.Of(conn), relay.Of(stream))
}

// service is what the workstations bring, and servicePort the port of its baseline.
var service = reconnect.Tunnel{Namespace: "bench", Name: "service"}

const servicePort = 80

// runWorkstation has some sessions with a proxy, each as switchyard connect would, and forwards
// connections to the service.
func runWorkstation(at string, sessions int, cert string) error {
	bundle, err := os.ReadFile(cert)
	if err != nil {
		return err
	}
	roots := trust.NewRoots(cert)
	if err := roots.Set(bundle); err != nil {
		return err
	}
	ended := make(chan error)
	for i := range sessions {
		w, err := workstation.New(workstation.Config{
			Road: workstation.Address(at), Name: "tunnel", Roots: roots, Session: strconv.Itoa(i),
			Token: func(context.Context, bool) (string, error) { return "bench", nil },
		})
		if err != nil {
			return err
		}
		go func() { ended <- w.Run(context.Background()) }()
		go w.Follow(context.Background(), brings{})
	}
	ready()
	return errors.Join(errors.New("a workstation has ended"), <-ended)
}

// brings is a workstation.Wanted: the service, always, of a sandbox of the user, so that its address is opened.
type brings struct{}

func (brings) Watch(ctx context.Context, tell func([]workstation.Workload)) error {
	tell([]workstation.Workload{{Tunnel: service, Own: true, Locals: map[int32]string{servicePort: serviceAddress}}})
	<-ctx.Done()
	return ctx.Err()
}
