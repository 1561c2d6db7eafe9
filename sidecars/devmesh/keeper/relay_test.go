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

// With another Envoy in the image, or a bug, Envoy would otherwise be offered the same routes
// for ever and accept no connection.
func TestRoutesFromDiskThatEnvoyRefusesGiveWayToTheBaseline(t *testing.T) {
	baseline, err := translate.Baseline(customer)
	if err != nil {
		t.Fatal(err)
	}
	kept := baseline[0]
	kept.Version = "refused"
	disk := store{path: filepath.Join(t.TempDir(), "routes.pb")}
	if err := disk.save(kept); err != nil {
		t.Fatal(err)
	}
	r := newRelay(customer, disk, slog.New(slog.DiscardHandler))
	if err := r.offerFirst(); err != nil {
		t.Fatal(err)
	}
	if got := versionOf(first(t, r)); got != "refused" {
		t.Fatalf("Envoy is offered version %q, want the one from disk", got)
	}
	put := first(t, r).Version
	r.settled(serve.Peer{}, []serve.Status{{Name: kept.Name, Sent: put, Rejected: put, Error: "unknown field"}})
	if got := versionOf(first(t, r)); got != baseline[0].Version {
		t.Errorf("Envoy is offered version %q after it refused that from disk, want the baseline's %q", got, baseline[0].Version)
	}
}

// rehearsal is a relay and an Envoy that answers on command.
type rehearsal struct {
	*relay
	t    *testing.T
	like translate.Resource
	// accepted is Envoy's last accepted version, and sent the last one that it was sent and has
	// not answered; as the relay's server has them.
	accepted, sent string
}

func rehearse(t *testing.T) *rehearsal {
	t.Helper()
	baseline, err := translate.Baseline(customer)
	if err != nil {
		t.Fatal(err)
	}
	return &rehearsal{
		relay: newRelay(customer, store{path: filepath.Join(t.TempDir(), "routes.pb")}, slog.New(slog.DiscardHandler)),
		t:     t, like: baseline[0],
	}
}

func (r *rehearsal) offers(version string) {
	routes := r.like
	routes.Version = version
	r.offer(routes)
}

// sends sends Envoy its routes, unless it has them or has not answered.
func (r *rehearsal) sends() {
	if routes := first(r.t, r.relay); r.sent == "" && routes.Version != r.accepted {
		r.sent = routes.Version
	}
}

// accepts and refuses answer the last routes.
func (r *rehearsal) accepts() {
	r.accepted, r.sent = r.sent, ""
	r.settled(serve.Peer{}, []serve.Status{{Name: r.like.Name, Sent: r.accepted, Acked: r.accepted}})
}

func (r *rehearsal) refuses() {
	refused := r.sent
	r.sent = ""
	r.settled(serve.Peer{}, []serve.Status{{Name: r.like.Name, Sent: refused, Acked: r.accepted, Rejected: refused, Error: "no"}})
}

func (r *rehearsal) claims(when, want string) {
	r.t.Helper()
	if got := r.has(); got != want {
		r.t.Errorf("%s it claims version %q, not %q", when, got, want)
	}
}

func (r *rehearsal) says(when, version string, want verdict) {
	r.t.Helper()
	if got := r.verdictOn(version); got != want {
		r.t.Errorf("%s the verdict on %q is %+v, want %+v", when, version, got, want)
	}
}

// The stream to the route server breaks while Envoy has new routes before it, and they are
// withdrawn in the meantime. If the sidecar claimed the old ones they would not be sent again,
// and Envoy would continue with the new ones.
func TestRoutesAreNotClaimedWhileOthersAreOnTheirWay(t *testing.T) {
	r := rehearse(t)
	r.claims("at first", "")
	r.offers("1")
	r.claims("before Envoy accepts anything", "")
	r.sends()
	r.accepts()
	r.claims("once Envoy has accepted it", "1")
	r.offers("2")
	r.claims("while Envoy has not said what it thinks of the next", "")
	r.sends()
	r.accepts()
	r.claims("once Envoy has accepted the next", "2")
	r.offers("3")
	r.sends()
	r.refuses()
	r.claims("once Envoy has refused the one after", "2")
}

// Routes that Envoy accepted are offered again while others are in flight to it: it has them
// when it accepts the second offer, not by its first answer.
func TestAResourceSettlesOnceEnvoyHasItAgain(t *testing.T) {
	accepted := verdict{settled: true}
	r := rehearse(t)
	r.offers("1")
	r.sends()
	r.accepts()
	r.says("accepted", "1", accepted)
	r.offers("2")
	r.sends() // and no answer yet
	r.offers("1")
	r.says("with 2 on its way", "1", verdict{})
	r.claims("with 2 on its way", "")
	r.accepts() // 2
	r.says("with 2 accepted", "1", verdict{})
	r.claims("with 2 accepted", "")
	r.sends()
	r.accepts() // 1
	r.says("with 1 accepted again", "1", accepted)
	r.claims("with 1 accepted again", "1")

	// Nothing is on its way: it has it, and need not be asked.
	r.offers("2")
	r.sends()
	r.refuses()
	r.offers("1")
	r.says("after it refused 2", "1", accepted)
	r.sends()
	if r.sent != "" {
		t.Errorf("Envoy is sent %q, which it has", r.sent)
	}

	// Routes that it refused before are offered again: it may be another Envoy.
	r.offers("2")
	r.sends()
	if r.sent == "" {
		t.Fatal("Envoy is not asked about 2 again")
	}
	r.refuses()
	r.says("refused again", "2", verdict{settled: true, refusal: "no"})
}
