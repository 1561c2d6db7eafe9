package translate

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
)

// What a proxy does with a part that it refused: of a key that is kept at the baseline
// there is nothing to refuse.
func TestAKeyThatIsKeptIsNotRefusedWithItsPart(t *testing.T) {
	kept, forked := keeping("k1", "watcher", to(80)), rule("k2", "feature", to(80, "10.0.0.1"))
	entries := func(value string) []byte {
		routes, err := routesOf(kept, forked)
		if err != nil {
			t.Fatal(err)
		}
		part := routes.parts[partOf(value)]
		in, err := StandIn(customer, part, nil)
		if err != nil {
			t.Fatal(err)
		}
		if in == nil {
			return nil
		}
		had, err := in.byValue()
		if err != nil {
			t.Fatal(err)
		}
		return had[value]
	}
	if got := entries(MatchValue(80, "k1")); got != nil {
		t.Errorf("the key that is kept has the entry %x", got)
	}
	if got := entries(MatchValue(80, "k2")); got == nil {
		t.Error("the key of a fork, whose route was refused, leads to the baseline")
	}
	routes, err := routesOf(kept)
	if err != nil {
		t.Fatal(err)
	}
	if got := Differing(routes.parts[partOf(MatchValue(80, "k1"))], nil); len(got) != 1 || got[0] != "watcher" {
		t.Errorf("the sandboxes of the part are %q", got)
	}
}

// Requests that are recorded come back with a secret of the sidecar, which no other request has. Without a secret none is sent away.
func TestRecordedRequestsComeBackToTheApplication(t *testing.T) {
	routes, err := routesOf(keeping("k1", "watcher", to(80, "10.0.0.1"), to(81)), rule("k2", "feature", to(80, "10.0.0.2")))
	if err != nil {
		t.Fatal(err)
	}
	config := func(r Resource, err error) *routev3.RouteConfiguration {
		t.Helper()
		c := &routev3.RouteConfiguration{}
		if err := errors.Join(err, r.Any.UnmarshalTo(c)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	head := routes.head.Returning("secret")
	parts := routes.parts
	for i, p := range parts { // as a sidecar receives them
		if p == nil {
			continue
		}
		if _, parts[i], err = ReadPart(customer, p.Resource); err != nil {
			t.Fatal(err)
		}
		if err := parts[i].Unfit(); err != nil {
			t.Error(err)
		}
	}
	whole, err := Compose(head, &parts)
	with := config(whole, err).VirtualHosts[0]
	text := protojson.Format(with)
	for _, want := range []string{`"exact": "secret"`, `"return": "secret"`, `"baseline-for=watcher;via=traffic-manager"`} {
		if n := strings.Count(strings.ReplaceAll(text, ":  ", ": "), want); n != 1 {
			t.Errorf("%s is there %d times: %s", want, n, text)
		}
	}
	route := &routev3.Route{}
	entry := with.Matcher.GetMatcherTree().GetExactMatchMap().Map[MatchValue(80, "k1")]
	if err := entry.GetAction().GetTypedConfig().UnmarshalTo(route); err != nil {
		t.Fatal(err)
	}
	if a := route.RequestHeadersToAdd; len(a) != 1 || a[0].Header.Key != ReturnHeader || a[0].Header.Value != returning || route.GetRoute().GetCluster() != ForksCluster {
		t.Errorf("the route is %v", route)
	}
	plain := config(routes.Whole()).VirtualHosts[0]
	if text := protojson.Format(plain); strings.Contains(text, "traffic-manager") || strings.Contains(text, returning) {
		t.Errorf("a proxy without a secret gets %s", text)
	}
	without := &routev3.Route{}
	if err := plain.Matcher.GetMatcherTree().GetExactMatchMap().Map[MatchValue(80, "k1")].GetAction().GetTypedConfig().UnmarshalTo(without); err != nil {
		t.Fatal(err)
	}
	if without.Name != "baseline-for=watcher" || without.GetRoute().GetCluster() != AppCluster {
		t.Errorf("its route is %v", without)
	}

	// A sidecar of an earlier image knows no secret. On disk there is none, and no route that needs one.
	kept, err := Portable(whole, "secret")
	if err != nil || kept.Version == whole.Version {
		t.Fatalf("version %q is kept of %q, so the routes of a route server would not replace it: %v", kept.Version, whole.Version, err)
	}
	for _, not := range []string{"secret", "traffic-manager", "10.0.0.1", returning} {
		if bytes.Contains(kept.Any.Value, []byte(not)) {
			t.Errorf("%s is on disk", not)
		}
	}
	plain.Matcher.GetMatcherTree().GetExactMatchMap().Map[MatchValue(80, "k1")].GetAction().GetTypedConfig().TypeUrl = routeType
	if diff := cmp.Diff(plain, config(Refit(kept, false)).VirtualHosts[0], protocmp.Transform()); diff != "" {
		t.Error("from disk (-want +got): ", diff)
	}
}
