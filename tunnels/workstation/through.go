package workstation

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/tunnels/dialer"
)

// Through is a Road through an HTTP proxy that supports CONNECT, such as that of a control plane.
type Through struct {
	// Proxy is its URL: https, or http for a host of this machine only, because Header is sent to
	// it in clear.
	Proxy *url.URL
	// Target is the address of a tunnel proxy as the proxy knows it, host:port.
	Target string
	// Header is sent to the proxy, such as the credentials of a control plane.
	Header http.Header
	// TLS is the configuration of the connection to the HTTP proxy; nil: the system's roots. The
	// tunneled connection is encrypted once more, to the tunnel proxy itself.
	TLS *tls.Config
}

// answerWithin bounds how long a proxy takes to answer.
const answerWithin = 20 * time.Second

// Validate returns an error when the proxy's URL cannot be used.
func (t Through) Validate() error {
	if t.Proxy == nil || t.Proxy.Hostname() == "" || (t.Proxy.Scheme != "https" && t.Proxy.Scheme != "http") {
		return fmt.Errorf("%q is not the URL of an HTTP proxy, such as https://proxy.example.com", t.Proxy.Redacted())
	}
	if host := t.Proxy.Hostname(); t.Proxy.Scheme == "http" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("%s would be shown credentials in clear: give an https URL", t.Proxy.Redacted())
	}
	return nil
}

// Dial implements Road.
func (t Through) Dial(ctx context.Context) (net.Conn, error) {
	if err := t.Validate(); err != nil {
		return nil, Final(err)
	}
	c, err := t.proxy(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	tunnel, err := t.connect(c)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return tunnel, nil
}

// proxy connects to the proxy itself.
func (t Through) proxy(ctx context.Context) (net.Conn, error) {
	port := cmp.Or(t.Proxy.Port(), map[string]string{"https": "443", "http": "80"}[t.Proxy.Scheme])
	c, err := dialer.Dial(ctx, net.JoinHostPort(t.Proxy.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("the proxy %s is not reached (%w): see that its URL is right, and that no firewall is in between", t.Proxy.Redacted(), err)
	}
	if t.Proxy.Scheme == "http" {
		return c, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.TLS != nil {
		config = t.TLS.Clone()
	}
	config.ServerName, config.NextProtos = t.Proxy.Hostname(), []string{"http/1.1"}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		var untrusted *tls.CertificateVerificationError
		if errors.As(err, &untrusted) {
			return nil, fmt.Errorf("the proxy %s does not show a certificate that is trusted: %w", t.Proxy.Redacted(), err)
		}
		return nil, fmt.Errorf("the server at %s speaks no TLS, or the connection broke: check its URL (%w)", t.Proxy.Redacted(), err)
	}
	return secure, nil
}

// connect asks the proxy for a connection to the target.
func (t Through) connect(c net.Conn) (net.Conn, error) {
	_ = c.SetDeadline(time.Now().Add(answerWithin))
	tunnel, refusal, err := dialer.Connect(c, t.Target, t.Header)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the proxy %s does not answer as HTTP proxies do: %w", t.Proxy.Redacted(), err)
	case refusal != nil:
		return nil, t.refused(refusal)
	}
	_ = c.SetDeadline(time.Time{})
	return tunnel, nil
}

// refused returns the error for a proxy's refusal.
func (t Through) refused(answer *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 256))
	text := strings.Join(strings.Fields(answer.Status+": "+strings.ToValidUTF8(string(said), "")), " ")
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return Final(fmt.Errorf("the proxy %s does not take your credentials (%s)", t.Proxy.Redacted(), text))
	}
	return fmt.Errorf("the proxy %s did not connect to %s (%s)", t.Proxy.Redacted(), t.Target, strings.TrimSuffix(text, ":"))
}

// Address is a Road: the address of a tunnel proxy, host:port.
type Address string

// Dial implements Road.
func (a Address) Dial(ctx context.Context) (net.Conn, error) {
	c, err := dialer.Dial(ctx, string(a))
	if err != nil {
		return nil, a.explained(err)
	}
	return c, nil
}

// explained adds the remedy to an error.
func (a Address) explained(err error) error {
	var name *net.DNSError
	switch {
	case errors.Is(err, dialer.ErrSilent):
		return fmt.Errorf("%s does not answer: see that a tunnel proxy listens there, and that no firewall is in between", string(a))
	case errors.As(err, &name) && name.IsNotFound:
		return Final(fmt.Errorf("there is no host of the name in %s: give the address of a tunnel proxy, usually with port 7777", string(a)))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: give the address of a tunnel proxy, usually with port 7777", string(a))
	}
	return fmt.Errorf("%s is not reached: %w", string(a), err)
}
