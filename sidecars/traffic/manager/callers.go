package manager

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"switchyard.dev/sidecars/devmesh"
)

const (
	// checkWithin bounds the question to a sidecar, believed is for how long its answer counts, and refused how long it counts that
	// there is no such answer. Until remembered after its last answer, a sidecar that cannot be reached counts: it may start again.
	checkWithin, believed, refused, remembered = 2 * time.Second, time.Minute, 2 * time.Second, 3 * time.Minute
	// maxCallers is how many answers are kept.
	maxCallers = 4096
	// A caller is logged again after reportAgain. Of many, reportAtOnce are logged, and then one in reportEvery.
	reportAgain, reportEvery, reportAtOnce = time.Hour, time.Minute, 10
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
	logger *slog.Logger
	// reports bounds the lines about callers, and reported has the time of the last one, by address.
	reports  *rate.Limiter
	reported *lru.Cache
}

// NewSidecarCallers registers the metric of requests that were not sent back. Their callers are logged.
func NewSidecarCallers(metrics prometheus.Registerer, logger *slog.Logger) (*SidecarCallers, error) {
	c := &SidecarCallers{
		known: lru.New(maxCallers), clock: time.Now, logger: logger, reports: rate.NewLimiter(rate.Every(reportEvery), reportAtOnce), reported: lru.New(maxCallers),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "switchyard_traffic_returns_failed_total",
			Help: "Connections with requests of virtual workloads that were not sent back: no sidecar has the address that they come from, or it does not accept them.",
		}),
	}
	c.client = http.Client{
		Timeout: checkWithin, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, metrics.Register(c.failed)
}

// Failed implements proxy.Callers. The metric has all of them, the log each caller now and then.
func (c *SidecarCallers) Failed(host string, why error) {
	c.failed.Inc()
	now := c.clock()
	if last, is := c.reported.Get(host); is && now.Sub(last.(time.Time)) < reportAgain || !c.reports.AllowN(now, 1) {
		return
	}
	c.reported.Add(host, now)
	c.logger.Warn("Recorded requests of a virtual workload fail, since they cannot be sent back to their caller. If this is the address of a pod, allow connections from traffic-manager to it; otherwise the network hides the addresses of pods, and virtual workloads cannot be recorded.", "caller", host, "error", why)
}

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

// answer is the state of an address until the next question: why requests are not sent back there, or nil, and when a sidecar has
// stated it last.
type answer struct {
	stated, until time.Time
	err           error
}

// next returns the state after a question. answered: something has answered, also if that is no sidecar with the address.
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
