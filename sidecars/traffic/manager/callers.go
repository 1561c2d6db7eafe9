package manager

import (
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

const (
	// checkWithin bounds the question to a sidecar, believed is for how long its answer counts, and refused how long it counts that
	// there is no such answer. Until remembered after its last answer, a sidecar that cannot be reached counts: it may start again.
	checkWithin, believed, refused, remembered = 2 * time.Second, time.Minute, 2 * time.Second, 3 * time.Minute
	// maxCallers is how many answers are kept.
	maxCallers = 4096
)

// SidecarCallers are the callers to which requests of virtual workloads are sent back: pods with a sidecar. Where the network hides
// the addresses of pods, a connection has that of a node or a gateway, which serves something else at the port of the application.
// It implements proxy.Callers, and is safe for concurrent use. Create it with NewSidecarCallers.
type SidecarCallers struct {
	client http.Client
	failed prometheus.Counter
	asking singleflight.Group
	known  *lru.Cache // answers, by address
	clock  func() time.Time
}

// NewSidecarCallers registers the metric of requests that were not sent back.
func NewSidecarCallers(metrics prometheus.Registerer) (*SidecarCallers, error) {
	c := &SidecarCallers{known: lru.New(maxCallers), clock: time.Now, failed: prometheus.NewCounter(prometheus.CounterOpts{
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
		known, _ := c.known.Get(host)
		last, _ := known.(answer)
		if c.clock().Before(last.until) {
			return nil, last.err
		}
		answered, err := c.ask(host)
		if err != nil {
			err = fmt.Errorf("no sidecar has the address %s, from which they come: %w", host, err)
		}
		next := last.next(answered, err, c.clock())
		c.known.Add(host, next)
		return nil, next.err
	})
	return err
}

// answer is what is known of an address until the next question: why requests are not sent back there, or nil, and when a sidecar
// has stated it last.
type answer struct {
	stated, until time.Time
	err           error
}

// next returns what is known after a question. answered: something has answered, also if that is no sidecar with the address.
func (a answer) next(answered bool, err error, now time.Time) answer {
	switch {
	case err == nil:
		return answer{stated: now, until: now.Add(believed)}
	case !answered && now.Sub(a.stated) < remembered:
		return answer{stated: a.stated, until: now.Add(refused)}
	}
	return answer{until: now.Add(refused), err: err}
}

// ask asks the sidecar at an address for its address. The error states why it is not that of a sidecar; answered is false if nothing has
// answered.
func (c *SidecarCallers) ask(host string) (answered bool, err error) {
	at := "http://" + net.JoinHostPort(host, strconv.Itoa(devmesh.ReadinessPort)) + devmesh.AddressPath
	answer, err := c.client.Get(at) //nolint:noctx // the client has a timeout
	if err != nil {
		return false, err
	}
	defer answer.Body.Close() //nolint:errcheck // It was only read.
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64))
	if err != nil {
		return false, err
	}
	if answer.StatusCode != http.StatusOK || string(text) != host {
		return true, fmt.Errorf("port %d answers with status %d and %q", devmesh.ReadinessPort, answer.StatusCode, text)
	}
	return true, nil
}
