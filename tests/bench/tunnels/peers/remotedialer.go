package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
)

const id = "bench"

// serve accepts clients, and forwards the connections to the entrance through one.
func serve(address, entrance, to, cert, key string) error {
	s := remotedialer.New(func(*http.Request) (string, bool, error) { return id, true, nil }, remotedialer.DefaultErrorWriter)
	l, err := net.Listen("tcp4", entrance)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- http.ListenAndServeTLS(address, cert, key, s) }()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			go forward(conn, s.Dialer(id), to)
		}
	}()
	return <-failed
}

func forward(conn net.Conn, dial remotedialer.Dialer, to string) {
	defer conn.Close()
	through, err := dial(context.Background(), "tcp", to)
	if err != nil {
		return
	}
	defer through.Close()
	go func() {
		defer conn.Close()
		defer through.Close()
		_, _ = io.Copy(through, conn)
	}()
	_, _ = io.Copy(conn, through)
}

// connect is the client.
func connect(address, cert string) error {
	bundle, err := os.ReadFile(cert)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	dialer := &websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	return errors.Join(errors.New("the session ended"), remotedialer.ConnectToProxy(context.Background(), "wss://"+address, nil,
		func(string, string) bool { return true }, dialer, nil))
}
