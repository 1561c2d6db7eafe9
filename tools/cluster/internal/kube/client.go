// Package kube is a client for the API server of the node: it applies the few objects that every
// cluster needs, checks whether the node is ready, and makes released volumes usable again. It uses
// plain HTTP with server-side apply.
package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/netns"
)

// ErrNotFound is the error for an object that does not exist.
var ErrNotFound = errors.New("not found")

// answerTime bounds one request. The API server is on this machine; when it takes
// longer it cannot reach its store.
const answerTime = 5 * time.Second

// applyTries is how often Apply asks a server that does not answer.
const applyTries = 4

// Client talks to the API server with the administrator's certificate.
type Client struct {
	// HTTP works inside the network namespace. It can also ask other parts of
	// the node.
	HTTP *http.Client
	base string
}

// Connect makes a client from the keys below the node's directory. It sends
// nothing yet.
func Connect(n layout.Node) (*Client, error) {
	pair, err := tls.LoadX509KeyPair(n.Dir("pki/admin.crt"), n.Dir("pki/admin.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's key: %w", err)
	}
	ca, err := os.ReadFile(n.Dir("pki/ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &Client{base: n.APIServer(), HTTP: &http.Client{
		Timeout: answerTime,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       dialer(n.NetNS()),
			DialTLSContext:    dialTLS(n.NetNS(), pair, roots),
		},
	}}, nil
}

func dialer(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		// One address and no second try: the dialer then stays on this thread.
		d := net.Dialer{FallbackDelay: -1}
		err = netns.Do(namespace, func() error {
			c, err = d.DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
}

// dialTLS returns a dialer that verifies every server against the node's authority, except for
// those on the loopback of the namespace: the parts there use self-signed certificates, and no
// other program can listen there.
func dialTLS(namespace string, pair tls.Certificate, roots *x509.CertPool) func(context.Context, string, string) (net.Conn, error) {
	dial := dialer(namespace)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(address)
		c := tls.Client(raw, &tls.Config{
			ServerName: host, RootCAs: roots, Certificates: []tls.Certificate{pair},
			InsecureSkipVerify: net.ParseIP(host).IsLoopback(),
		})
		if err := c.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		return c, nil
	}
}

// Get reads the object or list at path into result.
func (c *Client) Get(ctx context.Context, path string, result any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, result)
}

// Apply creates or updates an object. path is the path of the object in the API; body is the object
// as a value that encodes to JSON.
//
// It retries a few times when there is no response: after a crash of its store an API server can
// take longer than answerTime to reconnect, and applying is idempotent.
func (c *Client) Apply(ctx context.Context, path string, body any) error {
	for try := 1; ; try++ {
		err := c.apply(ctx, path, body)
		var network net.Error
		if try == applyTries || ctx.Err() != nil || !errors.As(err, &network) || !network.Timeout() {
			return err
		}
	}
}

func (c *Client) apply(ctx context.Context, path string, body any) error {
	return c.do(ctx, http.MethodPatch, path+"?fieldManager=switchyard-cluster&force=true", "application/apply-patch+yaml", body, nil)
}

// Merge changes parts of an object by a JSON merge patch.
func (c *Client) Merge(ctx context.Context, path string, body any) error {
	return c.do(ctx, http.MethodPatch, path, "application/merge-patch+json", body, nil)
}

func (c *Client) do(ctx context.Context, method, path, kind string, body, result any) error {
	var sent io.Reader
	if body != nil {
		content, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		sent = bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", path, err)
	}
	request.Header.Set("Accept", "application/json")
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return fmt.Errorf("asking the API server: %w", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	switch {
	case err != nil:
		return fmt.Errorf("reading the API server's answer: %w", err)
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", method, filepath.Clean(path), ErrNotFound)
	case response.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(content))
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(content, result); err != nil {
		return fmt.Errorf("reading the API server's answer to %s: %w", path, err)
	}
	return nil
}
