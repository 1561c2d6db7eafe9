package carrier_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tunnels/carrier"
)

// other is a protocol with messages and limits of its own.
var other = carrier.Settings{
	Protocol: "other/1",
	Limits:   carrier.Limits{Streams: 3, Pending: 2},
	Open:     func() proto.Message { return &tunnelv1.ServiceName{} },
}

// secured returns the two ends of a TLS connection with the settings of a protocol.
func secured(t *testing.T, settings carrier.Settings) (near, far *tls.Conn) {
	t.Helper()
	pair, err := selfsigned.New("there")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.Cert)
	a, b := wires(t)
	near = tls.Client(a, settings.Secure(&tls.Config{RootCAs: roots, ServerName: "there"}))
	far = tls.Server(b, settings.Secure(&tls.Config{Certificates: []tls.Certificate{certificate}}))
	go func() { _ = far.HandshakeContext(t.Context()) }()
	if err := near.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return near, far
}

var errSmall = errors.New("the Service is too small")

// others begins a session of the other protocol; its server refuses the name "small".
func others(t *testing.T, other carrier.Settings, name string) (client, server *carrier.Session, clientErr, serverErr error) {
	t.Helper()
	near, far := secured(t, other)
	if near.ConnectionState().NegotiatedProtocol != "other/1" {
		t.Fatalf("negotiated %q", near.ConnectionState().NegotiatedProtocol)
	}
	type result struct {
		*carrier.Session
		error
	}
	served := make(chan result, 1)
	go func() {
		hello := &tunnelv1.ServiceName{}
		s, err := other.Serve(t.Context(), far, hello, func(context.Context) (proto.Message, error) {
			if hello.GetName() == "small" {
				return &tunnelv1.Refused{Message: "too small"}, errSmall
			}
			return &tunnelv1.Refused{}, nil
		})
		served <- result{s, err}
	}()
	answer := &tunnelv1.Refused{}
	client, clientErr = other.Connect(t.Context(), near, &tunnelv1.ServiceName{Name: name}, answer, func() error {
		if answer.GetMessage() != "" {
			return errors.New(answer.GetMessage())
		}
		return nil
	})
	s := <-served
	t.Cleanup(func() {
		for _, one := range []*carrier.Session{client, s.Session} {
			if one != nil {
				one.Close(nil)
			}
		}
	})
	return client, s.Session, clientErr, s.error
}

func TestAProtocolHasItsOwnMessages(t *testing.T) {
	_, _, clientErr, serverErr := others(t, other, "small")
	if clientErr == nil || clientErr.Error() != "too small" || !errors.Is(serverErr, errSmall) {
		t.Fatalf("refused with %v and %v", clientErr, serverErr)
	}
	client, server, clientErr, serverErr := others(t, other, "large")
	if err := errors.Join(clientErr, serverErr); err != nil {
		t.Fatal(err)
	}
	go func() {
		in, err := client.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		if name, is := in.Request.(*tunnelv1.ServiceName); !is || name.GetName() != "cart" || in.Open != nil {
			t.Errorf("opened with %v", in.Request)
		}
		c, err := in.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(c, c)
		_ = c.Close()
	}()
	c, err := server.Open(t.Context(), &tunnelv1.ServiceName{Name: "cart"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "hello")
	_ = c.(*carrier.Stream).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("%q came back, %v", got, err)
	}
}

// exhausted reports whether a connection is refused because there are too many.
func exhausted(err error) bool {
	refused := (*carrier.RefusedError)(nil)
	return errors.As(err, &refused) && refused.Refused.GetReason() == tunnelv1.Reason_REASON_EXHAUSTED
}

func TestAProtocolHasItsOwnLimits(t *testing.T) {
	client, server, clientErr, serverErr := others(t, other, "large")
	if err := errors.Join(clientErr, serverErr); err != nil {
		t.Fatal(err)
	}
	open := func(answered chan<- error) {
		_, err := server.Open(t.Context(), &tunnelv1.ServiceName{Name: "cart"})
		answered <- err
	}
	answered := make(chan error, 3)
	for range 3 { // two may wait
		go open(answered)
	}
	if err := <-answered; !exhausted(err) {
		t.Fatalf("the third that waits: %v", err)
	}
	var ends []net.Conn
	accept := func() {
		t.Helper()
		in, err := client.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, err := in.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, c)
	}
	accept()
	accept()
	go open(answered)
	accept()
	for range 3 {
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	go open(answered)
	if err := <-answered; !exhausted(err) {
		t.Errorf("a fourth connection: %v", err)
	}
}

// TestAProtocolHasItsOwnBoundOfUnreadData sends less than the first window of a stream, and more
// than the bound of the session.
func TestAProtocolHasItsOwnBoundOfUnreadData(t *testing.T) {
	bounded := other
	bounded.Limits.Unread = 100 << 10
	client, server, clientErr, serverErr := others(t, bounded, "large")
	if err := errors.Join(clientErr, serverErr); err != nil {
		t.Fatal(err)
	}
	go func() {
		in, err := client.Accept(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := in.Accept(); err != nil {
			t.Error(err)
		}
	}()
	c, err := server.Open(t.Context(), &tunnelv1.ServiceName{})
	if err != nil {
		t.Fatal(err)
	}
	// The other end may cut before everything is written.
	if _, err := c.Write(make([]byte, 200<<10)); err != nil && !errors.Is(err, carrier.ErrCut) {
		t.Fatal(err)
	}
	readsCut(t, "the connection with too much unread data", c)
}
