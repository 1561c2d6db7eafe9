package keeper

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/sidecars/devmesh"
)

const (
	// calm is how long no request must have arrived before a sidecar that received SIGTERM ends
	// beside a running application. Load balancers may learn late that it is ending, and a
	// request that they still send would be cut off.
	calm = time.Second
	// appInterval is how often drain checks whether the application has ended. Until it notices,
	// requests on open connections are answered 503; the application would have closed them.
	appInterval = 10 * time.Millisecond
	// trafficInterval is how often Envoy is asked how many requests are under way.
	trafficInterval = 200 * time.Millisecond
)

// Envoy's drain. It keeps its listeners, whatever its drain time.
const (
	drainConnections = "/drain_listeners?graceful&skip_exit"
	closeListeners   = "/drain_listeners"
)

// drain waits for the end of the pod (ending) or of this program (stopped), and lets requests in
// progress finish: Envoy continues to serve and asks clients to use other connections, until
// the application has ended. It returns when Envoy must end, or when life ends.
func (p *proxy) drain(life, stopped context.Context) {
	select {
	case <-life.Done():
		return
	case <-p.ending:
	case <-stopped.Done():
	}
	p.Logger.Info("the pod ends: clients are asked to use other connections")
	d := progress{min: p.DrainMin, max: p.DrainMax, came: -1}
	for looked := (time.Time{}); ; {
		now := time.Now()
		if stopped.Err() != nil && d.stopped.IsZero() {
			d.stopped = now
		}
		if !d.gone && p.applicationGone() {
			d.gone, looked = true, time.Time{}
			p.Logger.Info("the application has stopped listening: no new connection is accepted")
		}
		if now.Sub(looked) >= trafficInterval {
			looked = now
			if err := p.pollEnvoy(life, &d, now); err != nil {
				p.Logger.Warn("cannot read the requests in progress from Envoy", "error", err)
			}
		}
		if d.over(now) || !wake.Sleep(life, appInterval) {
			return
		}
	}
}

// applicationGone reports whether no program but the sidecar listens in the pod.
func (p *proxy) applicationGone() bool {
	ports, err := applicationPorts()
	if err != nil {
		p.Logger.Warn("cannot check whether the application is listening", "error", err)
	}
	return err == nil && len(ports) == 0
}

// pollEnvoy asks Envoy to drain, again in case that it was restarted, and reads the number of
// requests in progress.
func (p *proxy) pollEnvoy(ctx context.Context, d *progress, now time.Time) error {
	path := drainConnections
	if d.gone {
		path = closeListeners
	}
	_, err := p.ask(ctx, http.MethodPost, path)
	var t traffic
	if err == nil {
		t, err = p.traffic(ctx)
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		d.underWay = 0 // no Envoy runs, as after leave; if it is only slow the numbers stay
		return nil
	}
	if err != nil {
		return err
	}
	d.underWay = t.underWay
	if t.requests != d.came {
		d.came, d.since = t.requests, now
	}
	return nil
}

// progress is how far a drain has come.
type progress struct {
	min, max time.Duration
	// stopped is when this program received the signal to end; zero before.
	stopped time.Time
	// gone: the application is.
	gone     bool
	underWay int
	// came is how many requests have come so far, and since when that last changed.
	came  int
	since time.Time
}

// over reports whether Envoy should end now: max after the signal to this program, in any case;
// before that once no request is in progress and either the application has ended, which has
// then closed its connections too, or min has passed and no request has arrived for calm.
func (d progress) over(now time.Time) bool {
	stopped := !d.stopped.IsZero()
	switch {
	case stopped && now.Sub(d.stopped) >= d.max:
		return true
	case d.underWay > 0:
		return false
	case d.gone:
		return true
	}
	return stopped && now.Sub(d.stopped) >= d.min && now.Sub(d.since) >= calm
}

// traffic are the counters of an Envoy.
type traffic struct {
	// underWay is the number of requests, and of connections that are not HTTP.
	underWay int
	// requests is how many came, ever.
	requests int
}

// traffic asks Envoy for it.
func (p *proxy) traffic(ctx context.Context) (traffic, error) {
	text, err := p.ask(ctx, http.MethodGet, "/stats?filter=^("+strings.Join([]string{
		devmesh.ActiveRequests, devmesh.ActiveTCP, devmesh.ActiveUpgrades, devmesh.Requests,
	}, "|")+")$")
	if err != nil {
		return traffic{}, err
	}
	t := traffic{underWay: p.sniffer.Passed()}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil: // none of them
		case name == devmesh.Requests:
			t.requests = n
		default:
			t.underWay += n
		}
	}
	return t, nil
}
