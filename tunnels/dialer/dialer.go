// Package dialer connects to a server over networks that fail: while there is no answer it begins
// further TCP connections beside the first, and where the environment names a proxy it connects
// through that with HTTP CONNECT.
package dialer

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Hurry is after how long without an answer a further connection is attempted beside the first:
// while a network is down TCP retries ever more slowly, and a new connection succeeds the moment
// it is back.
const Hurry = 500 * time.Millisecond

// ErrSilent is the error of an address that does not answer in time.
var ErrSilent = errors.New("no answer")

// Dial connects to an address, host:port. It returns the first connection that succeeds, or the
// first error; it returns ErrSilent when ctx ends before either.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	pending := 0
	begin := func() {
		pending++
		go func() {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			results <- result{c, err}
		}()
	}
	defer func() { // connections that come too late are closed
		cancel()
		left := pending
		go func() {
			for range left {
				if r := <-results; r.conn != nil {
					_ = r.conn.Close()
				}
			}
		}()
	}()
	ticker := time.NewTicker(Hurry)
	defer ticker.Stop()
	begin()
	for {
		select {
		case r := <-results:
			pending--
			if r.err == nil {
				return r.conn, nil
			}
			return nil, r.err
		case <-ticker.C:
			begin()
		case <-ctx.Done():
			return nil, ErrSilent
		}
	}
}

// Proxy returns the proxy for an address, host:port; nil: none.
type Proxy func(address string) (*url.URL, error)

// FromEnvironment returns the Proxy that the variables HTTPS_PROXY and NO_PROXY name, in upper or
// lower case, as they are now. If HTTPS_PROXY is not a URL it returns an error, also for addresses of
// NO_PROXY: the library would connect without a proxy.
func FromEnvironment() Proxy {
	named := httpproxy.FromEnvironment()
	config, all := named.ProxyFunc(), (&httpproxy.Config{HTTPSProxy: named.HTTPSProxy}).ProxyFunc()
	return func(address string) (*url.URL, error) {
		if by, err := all(&url.URL{Scheme: "https", Host: "proxy.invalid"}); named.HTTPSProxy != "" && (by == nil || err != nil) {
			return nil, errors.New("it cannot be read")
		}
		return config(&url.URL{Scheme: "https", Host: address})
	}
}

// maxAnswer bounds the header of a proxy's answer, in bytes.
const maxAnswer = 64 << 10

// Through connects to an address, as Dial does, or through its proxy: one of scheme http or
// https, which is asked to CONNECT with the name of the host and resolves it. ctx bounds both.
func Through(ctx context.Context, proxy Proxy, address string) (net.Conn, error) {
	by, err := proxy(address)
	if err != nil {
		return nil, fmt.Errorf("HTTPS_PROXY is not a URL: %w", withoutSecret(err))
	}
	if by == nil {
		return Dial(ctx, address)
	}
	conn, err := toProxy(ctx, by)
	if err != nil {
		return nil, fmt.Errorf("proxy %s is not reached: %w", by.Host, err)
	}
	// Reads and writes fail when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	tunnel, err := connect(conn, by, address)
	if !stop() && err == nil {
		err = ErrSilent
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = ErrSilent
		}
		return nil, fmt.Errorf("proxy %s does not connect to %s: %w", by.Host, address, err)
	}
	return tunnel, nil
}

// withoutSecret returns an error without the URL in it, which may have a password.
func withoutSecret(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return errors.New("it cannot be read")
}

// toProxy connects to a proxy.
func toProxy(ctx context.Context, by *url.URL) (net.Conn, error) {
	ports := map[string]string{"http": "80", "https": "443"}
	port, known := ports[by.Scheme]
	if !known {
		return nil, fmt.Errorf("scheme %q is not supported: use http or https", by.Scheme)
	}
	if by.Port() != "" {
		port = by.Port()
	}
	conn, err := Dial(ctx, net.JoinHostPort(by.Hostname(), port))
	if err != nil || by.Scheme == "http" {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{ServerName: by.Hostname(), MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// connect asks a proxy to connect to an address, with the credentials of its URL.
func connect(conn net.Conn, by *url.URL, address string) (net.Conn, error) {
	header := http.Header{}
	if by.User != nil {
		password, _ := by.User.Password()
		header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(by.User.Username()+":"+password)))
	}
	tunnel, refusal, err := Connect(conn, address, header)
	if err == nil && refusal != nil {
		err = fmt.Errorf("it answers %s", refusal.Status)
	}
	return tunnel, err
}

// Connect asks the HTTP proxy at the other end of a connection to connect to a target, host:port.
// It returns the connection to that, or the proxy's refusal.
func Connect(c net.Conn, target string, header http.Header) (tunnel net.Conn, refusal *http.Response, err error) {
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: header}
	if err := ask.Write(c); err != nil {
		return nil, nil, err
	}
	head := &io.LimitedReader{R: c, N: maxAnswer}
	from := bufio.NewReader(head)
	answer, err := http.ReadResponse(from, ask)
	if err != nil {
		return nil, nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, answer, nil
	}
	head.N = 1 << 62 // only its head was bounded
	return &begunConn{c, from}, nil, nil
}

// begunConn is a connection with a buffered reader.
type begunConn struct {
	net.Conn
	from *bufio.Reader
}

// Read implements net.Conn.
func (c *begunConn) Read(p []byte) (int, error) { return c.from.Read(p) }

// None is the Proxy of a client that uses none.
func None(string) (*url.URL, error) { return nil, nil }
