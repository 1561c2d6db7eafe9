package keeper

import (
	"log/slog"
	"path/filepath"
	"testing"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
)

var customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

func first(t *testing.T, r *relay) translate.Resource {
	t.Helper()
	routes, _ := r.Resources()
	if len(routes) != 1 {
		t.Fatalf("Envoy is to have %d resources, want 1", len(routes))
	}
	return routes[0]
}

// An image with another Envoy, or a fault of ours, and Envoy would otherwise be
// offered the same routes for ever and take no connection.
func TestRoutesFromDiskThatEnvoyRefusesGiveWayToTheBaseline(t *testing.T) {
	baseline, err := translate.Baseline(customer)
	if err != nil {
		t.Fatal(err)
	}
	kept := baseline[0]
	kept.Version = "refused"
	disk := store{filepath.Join(t.TempDir(), "routes.pb")}
	if err := disk.save(kept); err != nil {
		t.Fatal(err)
	}
	r := newRelay(customer, disk, slog.New(slog.DiscardHandler))
	if err := r.offerFirst(); err != nil {
		t.Fatal(err)
	}
	if got := first(t, r).Version; got != "refused" {
		t.Fatalf("Envoy is offered version %q, want the one from disk", got)
	}
	r.settled(serve.Peer{}, []serve.Status{{Name: kept.Name, Sent: "refused", Rejected: "refused", Error: "unknown field"}})
	if got := first(t, r).Version; got != baseline[0].Version {
		t.Errorf("Envoy is offered version %q after it refused that from disk, want the baseline's %q", got, baseline[0].Version)
	}
}

// The stream to the route server breaks while Envoy has new routes before it, and
// they are withdrawn meanwhile. Who claimed the old ones would not be sent them
// again, and Envoy would go on with the new ones.
func TestRoutesAreNotClaimedWhileOthersAreOnTheirWay(t *testing.T) {
	r := newRelay(customer, store{filepath.Join(t.TempDir(), "routes.pb")}, slog.New(slog.DiscardHandler))
	baseline, err := translate.Baseline(customer)
	if err != nil {
		t.Fatal(err)
	}
	version := func(v string) translate.Resource {
		routes := baseline[0]
		routes.Version = v
		return routes
	}
	accepts := func(v string) { r.settled(serve.Peer{}, []serve.Status{{Name: baseline[0].Name, Sent: v, Acked: v}}) }
	claims := func(when, want string) {
		t.Helper()
		if got := r.has(); got != want {
			t.Errorf("%s it claims version %q, not %q", when, got, want)
		}
	}
	claims("at first", "")
	r.offer(version("1"))
	claims("before Envoy accepts anything", "")
	accepts("1")
	claims("once Envoy has accepted it", "1")
	r.offer(version("2"))
	claims("while Envoy has not said what it thinks of the next", "")
	accepts("2")
	claims("once Envoy has accepted the next", "2")
	r.offer(version("3"))
	r.settled(serve.Peer{}, []serve.Status{{Name: baseline[0].Name, Sent: "3", Acked: "2", Rejected: "3", Error: "no"}})
	claims("once Envoy has refused the one after", "2")
}
