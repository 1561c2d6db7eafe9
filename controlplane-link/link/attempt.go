package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/dialer"
)

// Verify returns why a server is not trusted to have a name; nil: it is. trust.VerifyWithSystem is one, and
// *trust.Roots has such a method.
type Verify func(shown []*x509.Certificate, name string, now time.Time) error

// try makes one attempt. hello is the first message.
func (a *Agent) try(ctx context.Context) (s *carrier.Session, hello *linkv1.Hello, welcome *linkv1.Welcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	token, err := a.cfg.Token()
	if err != nil {
		return nil, nil, nil, err
	}
	a.shown.Store(token)
	if token == "" {
		return nil, nil, nil, ErrNoToken
	}
	if hello, err = a.cfg.Hello(ctx); err != nil {
		return nil, nil, nil, err
	}
	hello.Token, hello.Superseded, hello.OpensDataConnection = token, a.superseded.Load(), true
	s, welcome, err = a.greet(ctx, hello, nil)
	return s, hello, welcome, err
}

// greet begins a session, or the data connection of one.
func (a *Agent) greet(ctx context.Context, hello *linkv1.Hello, of *carrier.Session) (*carrier.Session, *linkv1.Welcome, error) {
	conn, err := dialer.Through(ctx, a.cfg.Proxy, a.cfg.Address)
	if err != nil {
		return nil, nil, a.trusting(fmt.Errorf("control plane %s is not reached: %w", a.cfg.Address, err))
	}
	secure, err := a.secure(ctx, conn)
	if err != nil {
		_ = conn.Close()
		return nil, nil, a.trusting(err)
	}
	answer := &linkv1.Answer{}
	settings := Settings()
	settings.Timing, settings.Beside = a.cfg.Timing, func() *carrier.Session { return of }
	s, err := settings.Connect(ctx, secure, hello, answer, func() error {
		switch is := answer.GetIs().(type) {
		case *linkv1.Answer_Welcome:
			return nil
		case *linkv1.Answer_Refused:
			return &RefusedError{is.Refused}
		}
		return errors.New("the control plane's answer is neither a welcome nor a refusal")
	})
	return s, answer.GetWelcome(), err
}

// trusting adds to the error of a connection that no server is trusted, if that is so.
func (a *Agent) trusting(err error) error {
	if a.cfg.Verify != nil || a.cfg.Plain || errors.Is(err, ErrNoAuthority) {
		return err
	}
	return fmt.Errorf("%w; and %w", err, ErrNoAuthority)
}

// secure performs the TLS handshake. The server has negotiated the protocol and is trusted when
// the error is nil.
func (a *Agent) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if a.cfg.Plain {
		return conn, nil
	}
	name, _, _ := net.SplitHostPort(a.cfg.Address) // New has checked it
	var untrusted error
	secure := tls.Client(conn, Settings().Secure(&tls.Config{
		ServerName: name,
		// VerifyConnection verifies every connection. It checks the protocol first: a server of
		// another product is reported as such.
		InsecureSkipVerify: true, //nolint:gosec // verified below
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != Protocol {
				return ErrProtocol
			}
			if untrusted = ErrNoAuthority; a.cfg.Verify != nil {
				untrusted = a.cfg.Verify(s.PeerCertificates, name, time.Now())
			}
			return untrusted
		},
	}))
	err := secure.HandshakeContext(ctx)
	switch {
	case err == nil:
		return secure, nil
	case untrusted != nil:
		return nil, fmt.Errorf("the control plane's certificate is not trusted, so nothing was sent to it: %w", untrusted)
	case errors.Is(err, ErrProtocol) || foreign(err):
		return nil, ErrProtocol
	}
	return nil, fmt.Errorf("the connection to the control plane broke before it answered: %w", err)
}

// foreign reports whether a failed handshake shows that the server is of another product: it
// offers no common protocol, no TLS 1.3, or no TLS.
func foreign(err error) bool {
	var plain tls.RecordHeaderError
	// The library does not export the type of the alert.
	text := err.Error()
	return errors.As(err, &plain) || strings.Contains(text, "no application protocol") || strings.Contains(text, "protocol version not supported") ||
		strings.Contains(text, "server selected unsupported protocol version")
}
