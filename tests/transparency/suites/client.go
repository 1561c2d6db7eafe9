package suites

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"

	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/xds/routingkey"
)

// client sends requests over HTTP/1.1 or HTTP/2 without TLS.
type client struct {
	http *http.Client
	to   suite.Target
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
	return client{c, to}
}

func (c client) close() { c.http.CloseIdleConnections() }

// ask sends a request with the target's key; change may change it before.
func (c client) ask(ctx context.Context, method, path string, body io.Reader, change func(*http.Request)) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.to.Address+path, body)
	if err != nil {
		return nil, err
	}
	// One name for all ways, since some applications answer with it.
	request.Host = "app.example"
	if c.to.Key != "" {
		request.Header.Set(routingkey.Baggage, baggage(c.to.Key))
	}
	if change != nil {
		change(request)
	}
	return c.http.Do(request)
}

// head says all that an answer has before its body, but what the time and the place
// change.
func head(r *http.Response) string {
	names := slices.Sorted(maps.Keys(r.Header))
	said := []string{r.Proto, r.Status}
	for _, name := range names {
		switch name {
		case "Date", "Last-Modified", "Etag":
			said = append(said, strings.ToLower(name))
		default:
			said = append(said, strings.ToLower(name)+"="+strings.Join(r.Header[name], "|"))
		}
	}
	return fmt.Sprintf("%s, length %d", strings.Join(said, " "), r.ContentLength)
}

// failure says why there was no answer, without addresses and ports.
func failure(err error, to suite.Target) string { return "failed: " + stable(err.Error(), to) }
