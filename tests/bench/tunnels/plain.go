package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"

	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tunnels/relay"
)

// Without multiplexing, each connection has TLS of its own, between two programs that do nothing else.
// That is no way to a cluster which allows outbound connections only.

// runPlainEnd forwards connections in TLS to the service.
func runPlainEnd(at, cert, key string) error {
	certificate, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp4", at, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	ready()
	return each(l, func(conn net.Conn) {
		forward(conn, func() (net.Conn, error) { return net.Dial("tcp4", serviceAddress) })
	})
}

// runPlainEntrance forwards connections of the entrance over TLS.
func runPlainEntrance(to, cert string) error {
	bundle, err := os.ReadFile(cert)
	if err != nil {
		return err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	config.RootCAs.AppendCertsFromPEM(bundle)
	l, err := net.Listen("tcp4", entrance(0))
	if err != nil {
		return err
	}
	ready()
	return each(l, func(conn net.Conn) { forward(conn, func() (net.Conn, error) { return tls.Dial("tcp4", to, config) }) })
}

func forward(conn net.Conn, dial func() (net.Conn, error)) {
	to, err := dial()
	if err != nil {
		_ = conn.Close()
		return
	}
	relay.Pipe(relay.Of(conn), relay.Of(to))
}

func openPlain(p *programs, s site) error {
	at := lab.NearAddress + ":7445"
	return errors.Join(
		p.ourselves(p.lab.Near, "-plain-end", at, "-cert", s.file("cert.pem"), "-key", s.file("key.pem")),
		p.ourselves(p.lab.Far, "-plain-entrance", at, "-cert", s.file("cert.pem")),
	)
}
