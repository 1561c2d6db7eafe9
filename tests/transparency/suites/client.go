package suites

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/xds/routingkey"
)

// client sends requests over HTTP/1.1 or HTTP/2 without TLS.
type client struct {
	http *http.Client
	to   suite.Target
	// hear, unless nil, is given each answer.
	hear func(*http.Response)
}

// patience is how long an answer that may never come is waited for.
const patience = 15 * time.Second

// each runs cases at the same time, some of which may wait.
func each(cases map[string]func() string) suite.Seen {
	var (
		mu   sync.Mutex
		work errgroup.Group
	)
	work.SetLimit(8)
	seen := suite.Seen{}
	for name, f := range cases {
		work.Go(func() error {
			said := f()
			mu.Lock()
			defer mu.Unlock()
			seen[name] = said
			return nil
		})
	}
	_ = work.Wait() // none gives an error
	return seen
}

// Protocols are those that a client can speak.
var Protocols = []string{"h1", "h2"}

func newClient(protocol string, to suite.Target) client {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if protocol == "h2" {
		c.Transport = &http2.Transport{
			AllowHTTP: true, DisableCompression: true,
			DialTLSContext: func(ctx context.Context, network, address string, _ *tls.Config) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, address)
			},
		}
	} else {
		c.Transport = &http.Transport{DisableCompression: true, ExpectContinueTimeout: 10 * time.Second}
	}
	return client{http: c, to: to}
}

func (c client) close() { c.http.CloseIdleConnections() }

// ask sends a request with the target's key; change may change it before.
func (c client) ask(ctx context.Context, method, path string, body io.Reader, change func(*http.Request)) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.to.Address+path, body)
	if err != nil {
		return nil, err
	}
	// One name for all ways, since some applications answer with it.
	request.Host = hostOf(c.to)
	if c.to.Credential != "" {
		request.Header.Set(suite.CredentialHeader, c.to.Credential)
	}
	if c.to.Key != "" {
		request.Header.Set(routingkey.Baggage, baggage(c.to.Key))
	}
	if change != nil {
		change(request)
	}
	return c.http.Do(request)
}

// hostOf returns the host that requests name.
func hostOf(to suite.Target) string { return cmp.Or(to.Host, "app.example") }

// head returns what an answer has before its body, but for its headers.
func head(r *http.Response) string {
	return fmt.Sprintf("%s %s, length %d", r.Proto, r.Status, r.ContentLength)
}

// headers returns what the headers of an answer are. Of those that the time changes it is
// that they are there.
func headers(r *http.Response) string {
	said := make([]string, 0, len(r.Header))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		switch name {
		case "Date", "Last-Modified", "Etag", "Sec-Websocket-Accept", "Server-Timing":
			said = append(said, strings.ToLower(name))
		default:
			said = append(said, strings.ToLower(name)+"="+strings.Join(r.Header[name], "|"))
		}
	}
	return strings.Join(said, " ")
}

// failure returns why there was no answer, without addresses and ports.
func failure(err error, to suite.Target) string { return "failed: " + stable(err.Error(), to) }
