package meshes

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
)

// adminPort is where each proxy's administrator asks, at its own address.
const adminPort = 15000

// Kind is what a proxy is to istiod.
type Kind string

// The kinds of proxies. A sidecar listens at 127.0.0.1 on the port of each Service, so there can be
// only one; a gateway listens on the ports of the Gateways with a Service that selects its labels.
const (
	Sidecar Kind = "sidecar"
	Gateway Kind = "router"
)

// Proxy is a stock Envoy that has its configuration from istiod.
type Proxy struct {
	Kind            Kind
	Name, Namespace string
	// IP is its own address, which no other has.
	IP     net.IP
	Labels map[string]string
}

// Run starts a proxy, until the test ends, and waits until it has configuration.
func (m *Mesh) Run(p Proxy) {
	m.Helper()
	m.Must(podnet.ServeAddress(p.IP))
	text, err := json.Marshal(p.bootstrap())
	m.Must(err)
	path := filepath.Join(m.dir, p.Name+".json")
	m.Must(os.WriteFile(path, text, 0o600))
	m.run(p.Name, sidecar.Envoy(path, "--concurrency", "1", "-l", "error"), nil)
	ready := fmt.Sprintf("http://%s/ready", net.JoinHostPort(p.IP.String(), strconv.Itoa(adminPort)))
	m.Await(p.Name+" has configuration", func() error { return sidecar.Healthy(m.Context(), ready) })
}

// Client returns an HTTP client that connects only to an IP address, on the port of the URL:
// 127.0.0.1 is the sidecar. It follows no redirects.
func Client(ip net.IP) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return dialer.DialContext(ctx, network, net.JoinHostPort(ip.String(), port))
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
