package keeper

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/sidecars/devmesh"
)

// calm is how long no request may have come before a drained Envoy ends: whoever
// leads clients here may learn late that it is to end, and their next request would
// be cut off.
const calm = time.Second

// drain lets what is under way finish: Envoy goes on serving and asks clients to
// use other connections. It returns when nothing is under way, nothing has come for
// a while, and DrainMin has passed, or after DrainMax.
func (p *proxy) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), p.DrainMax)
	defer cancel()
	if _, err := p.ask(ctx, http.MethodPost, "/drain_listeners?graceful&skip_exit"); err != nil {
		p.Logger.Warn("Envoy does not drain; it ends at once", "error", err)
		return
	}
	began := time.Now()
	came, since := -1, began
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		t, err := p.traffic(ctx)
		if err != nil {
			return
		}
		if t.requests != came {
			came, since = t.requests, time.Now()
		}
		if t.underWay == 0 && time.Since(since) >= calm && time.Since(began) >= p.DrainMin {
			return
		}
	}
}

// traffic is what goes through an Envoy.
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
	t := traffic{underWay: int(p.late.plain.Load())}
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
