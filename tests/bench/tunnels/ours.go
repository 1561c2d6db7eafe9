package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// runProxy is a proxy that does nothing but carry: connections to an address of its namespace go to
// the workstations that have come, in turn.
func runProxy(sessions, entrance, cert, key string) error {
	certificate, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	in, err := net.Listen("tcp4", sessions)
	if err != nil {
		return err
	}
	front, err := net.Listen("tcp4", entrance)
	if err != nil {
		return err
	}
	config := carrier.Secure(&tls.Config{Certificates: []tls.Certificate{certificate}})
	there := make(chan *carrier.Session, 64)
	go func() {
		for {
			conn, err := in.Accept()
			if err != nil {
				return
			}
			go func() {
				s, _, err := carrier.Serve(context.Background(), tls.Server(conn, config), func(context.Context, *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
					return &tunnelv1.Welcome{User: "bench"}, nil
				})
				if err == nil {
					there <- s
				}
			}()
		}
	}()
	ready()
	var all []*carrier.Session
	var next int
	for {
		conn, err := front.Accept()
		if err != nil {
			return err
		}
		for len(there) > 0 || len(all) == 0 {
			all = append(all, <-there)
		}
		next++
		go carryTo(all[next%len(all)], conn)
	}
}

var failures atomic.Int64

func carryTo(s *carrier.Session, conn net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	stream, err := s.Open(ctx, &tunnelv1.Open{To: &tunnelv1.Open_Inbound{Inbound: &tunnelv1.Inbound{Name: "service", From: conn.RemoteAddr().String()}}})
	cancel()
	if err != nil {
		if failures.Add(1) == 1 {
			fmt.Fprintln(os.Stderr, "proxy:", err)
		}
		_ = conn.Close()
		return
	}
	_, _, _ = carrier.Relay(conn, stream)
}

// runWorkstation has some sessions with a proxy, and leads what comes to the service.
func runWorkstation(proxy, service, cert string, sessions int) error {
	raw, err := os.ReadFile(cert)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	over := make(chan error, sessions)
	for i := range sessions {
		conn, err := tls.Dial("tcp4", proxy, carrier.Secure(&tls.Config{RootCAs: roots, ServerName: "tunnel"}))
		if err != nil {
			return err
		}
		s, _, err := carrier.Connect(context.Background(), conn, &tunnelv1.Hello{Version: carrier.Version, Session: fmt.Sprint(i), Epoch: 1})
		if err != nil {
			return err
		}
		go func() {
			for {
				in, err := s.Accept(context.Background())
				if err != nil {
					over <- errors.Join(err, s.Err())
					return
				}
				go lead(in, service)
			}
		}()
	}
	ready()
	return <-over
}

func lead(in *carrier.Incoming, service string) {
	conn, err := net.DialTimeout("tcp4", service, 10*time.Second)
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNREACHABLE, Message: err.Error()})
		return
	}
	stream, err := in.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	_, _, _ = carrier.Relay(stream, conn)
}
