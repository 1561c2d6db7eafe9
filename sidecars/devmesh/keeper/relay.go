package keeper

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
)

// relay keeps the routes for Envoy and Envoy's answer about them. Envoy's side reads it
// (serve.Sessions, serve.Source); the route server's side offers routes and asks for the
// verdict.
type relay struct {
	workload table.Workload
	logger   *slog.Logger
	store    store

	mu      sync.Mutex
	changed wake.Signal // sent when anything below changes
	// turn counts the offers to Envoy. The version contains it, so that an answer is never
	// attributed to another offer of the same routes.
	turn int
	// routes are what Envoy is to have: nil, or one resource.
	routes []translate.Resource
	// good are the routes that Envoy accepted last.
	good []translate.Resource
	// offered is the last version from the route server, and verdict Envoy's answer about it.
	offered string
	verdict verdict
}

// verdict is Envoy's answer about a version: none yet, accepted, or the reason for its refusal.
type verdict struct {
	settled bool
	refusal string
}

func newRelay(w table.Workload, s store, logger *slog.Logger) *relay {
	return &relay{workload: w, store: s, logger: logger}
}

// turnMark stands between a version and the number of the turn.
const turnMark = "~"

// versionOf returns the version without the turn.
func versionOf(routes translate.Resource) string {
	version, _, _ := strings.Cut(routes.Version, turnMark)
	return version
}

// put brings routes before Envoy. The lock is held.
func (r *relay) put(routes translate.Resource) {
	r.turn++
	routes.Version, routes.Encoded = versionOf(routes)+turnMark+strconv.Itoa(r.turn), nil
	r.routes = []translate.Resource{routes}
}

// settledOn reports whether Envoy has the routes offered to it. The lock is held.
func (r *relay) settledOn() bool {
	return len(r.good) > 0 && r.good[0].Version == r.routes[0].Version
}

// offer gives Envoy routes from the route server, unless they are those offered last or those
// that it has, with no others in flight to it.
func (r *relay) offer(routes translate.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if routes.Version == r.offered {
		return
	}
	r.offered, r.verdict = routes.Version, verdict{}
	if r.settledOn() && versionOf(r.good[0]) == routes.Version {
		r.verdict = verdict{settled: true}
	} else {
		r.put(routes)
	}
	r.changed.Send()
}

// offerFirst gives Envoy something to start with, unless the route server was
// faster.
func (r *relay) offerFirst() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.routes != nil {
		return nil
	}
	r.logger.Warn("the route server has not answered yet; starting without it until it does")
	return r.fallBack("")
}

// fallBack gives Envoy the routes that it accepted last, or else those on disk, or else the
// baseline alone; not the version that it has just refused, if any. The lock is held.
func (r *relay) fallBack(refused string) error {
	defer r.changed.Send()
	if len(r.good) > 0 && versionOf(r.good[0]) == refused {
		r.good = nil
	}
	if r.good != nil {
		r.routes = r.good // which it has
		return nil
	}
	routes, err := r.store.load(translate.RouteName(r.workload))
	if err == nil && routes[0].Version == refused {
		err = errors.New("those on disk are refused by Envoy")
	}
	if err != nil {
		r.logger.Warn("no usable routes on disk; everything goes to the baseline until routes are received", "reason", err)
		if routes, err = translate.Baseline(r.workload); err != nil {
			return err
		}
	}
	r.put(routes[0])
	return nil
}

// verdictOn returns Envoy's answer about a version, if it is the one offered last.
func (r *relay) verdictOn(version string) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version != r.offered {
		return verdict{}
	}
	return r.verdict
}

// has returns the version that Envoy accepted last, or "" when it has accepted none or another
// one is in flight to it: claiming the old one then would be wrong as soon as Envoy accepts the
// other, and the route server would not send it again.
func (r *relay) has() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.routes) == 0 || !r.settledOn() {
		return ""
	}
	return versionOf(r.good[0])
}

// Resources is serve.Source: what Envoy is to have.
func (r *relay) Resources() ([]translate.Resource, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes, r.changed.Next()
}

// Open is serve.Sessions. The socket is Envoy's alone, so it shows no token.
func (r *relay) Open(context.Context, string) (serve.Session, error) {
	own := translate.RouteName(r.workload)
	return serve.Session{
		Peer: serve.Peer{Workload: r.workload, UID: "envoy"},
		Allows: func(typeURL, name string) error {
			if typeURL != translate.RouteType || name != own {
				return status.Errorf(codes.PermissionDenied, "this sidecar has %q and not %.200q", own, name)
			}
			return nil
		},
		Source:  r,
		Settled: r.settled,
	}, nil
}

// settled processes Envoy's answer about the routes it was sent. Accepted routes are on disk
// before the route server is notified: a restart begins with the routes that were acknowledged
// last.
func (r *relay) settled(_ serve.Peer, statuses []serve.Status) {
	for _, s := range statuses {
		if keep, accepted := r.acceptedNow(s.Acked); accepted {
			if err := r.store.save(keep); err != nil {
				r.logger.Error("the routes could not be kept on disk; a restart begins with older ones", "error", err)
			}
		}
		r.settle(s)
	}
}

// acceptedNow returns the routes that Envoy has just accepted, as they are to be
// kept, if they are what the route server offered last.
func (r *relay) acceptedNow(acked string) (translate.Resource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.routes) == 0 || r.routes[0].Version != acked || versionOf(r.routes[0]) != r.offered || r.verdict.settled {
		return translate.Resource{}, false
	}
	keep := r.routes[0]
	keep.Version = r.offered
	return keep, true
}

// settle takes in one status. Routes that Envoy refused are taken back, so that it
// never starts with them.
func (r *relay) settle(s serve.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.routes) == 0 {
		return
	}
	defer r.changed.Send()
	current := versionOf(r.routes[0])
	switch r.routes[0].Version {
	case s.Acked:
		r.good = r.routes
		if r.offered == current && !r.verdict.settled {
			r.verdict = verdict{settled: true}
		}
	case s.Rejected:
		if r.offered == current { // also when it has accepted it before: it is another Envoy now
			r.verdict = verdict{settled: true, refusal: cmp.Or(s.Error, "refused without a reason")}
		}
		r.logger.Error("Envoy refused routes; it keeps the last good ones", "version", current, "error", s.Error)
		if err := r.fallBack(current); err != nil {
			r.logger.Error("there are no routes to fall back to", "error", err)
		}
	}
}
