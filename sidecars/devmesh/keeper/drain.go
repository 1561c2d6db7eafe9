package keeper

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/sidecars/devmesh"
)

// drain lets what is under way finish: Envoy goes on serving and asks clients to
// use other connections. It returns when nothing is under way and DrainMin has
// passed, or after DrainMax.
func (p *proxy) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), p.DrainMax)
	defer cancel()
	if _, err := p.ask(ctx, http.MethodPost, "/drain_listeners?graceful&skip_exit"); err != nil {
		p.Logger.Warn("Envoy does not drain; it ends at once", "error", err)
		return
	}
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		busy, err := p.busy(ctx)
		if err != nil || busy == 0 && time.Since(began) >= p.DrainMin {
			return
		}
	}
}

// busy gives the number of requests, and of connections that are not HTTP, that
// are under way.
func (p *proxy) busy(ctx context.Context) (int, error) {
	text, err := p.ask(ctx, http.MethodGet,
		"/stats?filter=^("+devmesh.ActiveRequests+"|"+devmesh.ActiveTCP+"|"+devmesh.ActiveUpgrades+")$")
	if err != nil {
		return 0, err
	}
	sum := int(p.late.plain.Load())
	for line := range strings.Lines(text) {
		_, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(value)
		if err != nil {
			continue // not a gauge
		}
		sum += n
	}
	return sum, nil
}
