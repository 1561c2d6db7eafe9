package manager

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"

	"switchyard.dev/sidecars/devmesh"
)

// checkWithin bounds the question to a sidecar, believed is for how long its answer counts, and maxCallers how many answers are kept.
const (
	checkWithin, believed = 2 * time.Second, time.Minute
	maxCallers            = 4096
)

// SidecarCallers are the callers to which requests of virtual workloads are sent back: pods with a sidecar. Where the network hides
// the addresses of pods, a connection has that of a node or a gateway, which serves something else at the port of the application.
// It implements proxy.Callers, and is safe for concurrent use. Create it with NewSidecarCallers.
type SidecarCallers struct {
	client http.Client
	failed prometheus.Counter
	asking singleflight.Group
	known  *lru.Cache // since when, by address
}

// NewSidecarCallers registers the metric of requests that were not sent back.
func NewSidecarCallers(metrics prometheus.Registerer) (*SidecarCallers, error) {
	c := &SidecarCallers{known: lru.New(maxCallers), failed: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "switchyard_traffic_returns_failed_total",
		Help: "Connections with requests of virtual workloads that were not sent back: no sidecar has the address that they come from, or it does not accept them.",
	})}
	c.client = http.Client{
		Timeout: checkWithin, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, metrics.Register(c.failed)
}

// Failed implements proxy.Callers.
func (c *SidecarCallers) Failed() { c.failed.Inc() }

// Check implements proxy.Callers: a sidecar states that this is its own address. Calls at the same time share a question.
func (c *SidecarCallers) Check(host string) error {
	_, err, _ := c.asking.Do(host, func() (any, error) {
		if since, known := c.known.Get(host); known && time.Since(since.(time.Time)) < believed {
			return nil, nil
		}
		if err := c.ask(host); err != nil {
			return nil, fmt.Errorf("no sidecar has the address %s, from which they come: %w", host, err)
		}
		c.known.Add(host, time.Now())
		return nil, nil
	})
	return err
}

// ask asks the sidecar at an address for its address.
func (c *SidecarCallers) ask(host string) error {
	at := "http://" + net.JoinHostPort(host, strconv.Itoa(devmesh.ReadinessPort)) + devmesh.AddressPath
	question, err := http.NewRequestWithContext(context.Background(), http.MethodGet, at, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := c.client.Do(question)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // It was only read.
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64))
	if err == nil && (answer.StatusCode != http.StatusOK || string(text) != host) {
		err = fmt.Errorf("port %d answers with status %d and %q", devmesh.ReadinessPort, answer.StatusCode, text)
	}
	return err
}
