package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

// plainly translates a table without splicing anything: messages are built whole
// and written by the protobuf library. It is what all the rest must come to.
func plainly(t table.Table, w table.Workload) (*routev3.RouteConfiguration, error) {
	host, err := headOf(headingOf(t, w))
	if err != nil {
		return nil, err
	}
	input, err := mapInput()
	if err != nil {
		return nil, err
	}
	entries, err := entriesFor(t, w, moveDestination)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		host.Matcher.MatcherType = treeOf(input, entries)
	}
	note, err := packed(noteDestination())
	if err != nil {
		return nil, err
	}
	host.TypedPerFilterConfig = map[string]*anypb.Any{DestinationFilter: note}
	if err := switchOn(host, heading{keyHeaders: t.KeyHeaders()}); err != nil {
		return nil, err
	}
	host.RequestBodyBufferLimit = wrapperspb.UInt64(keptBody)
	host.RequestHeadersToRemove = append(host.RequestHeadersToRemove, DestinationHeader, ReturnHeader)
	config := forAll()
	config.Name, config.VirtualHosts = RouteName(w), []*routev3.VirtualHost{host}
	return config, nil
}

// moveDestination does with a message what inMetadata does with bytes.
func moveDestination(r *routev3.Route) {
	if r.GetRoute().GetCluster() != ForksCluster {
		return
	}
	r.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{DestinationNamespace: {
		Fields: map[string]*structpb.Value{DestinationKey: structpb.NewStringValue(r.RequestHeadersToAdd[0].Header.Value)},
	}}}
	r.RequestHeadersToAdd = nil
}

// entriesFor returns the entries of a workload's map, each route changed by edit.
func entriesFor(t table.Table, w table.Workload, edit func(*routev3.Route)) (map[string]*matcherv3.Matcher_OnMatch, error) {
	entries := map[string]*matcherv3.Matcher_OnMatch{}
	for r := range t.Of(w) {
		for _, m := range r.Mappings {
			route := routeOf(r, m)
			edit(route)
			match, err := onMatch(route)
			if err != nil {
				return nil, err
			}
			if route.Metadata != nil {
				match.GetAction().TypedConfig.TypeUrl = movedType
			}
			entries[MatchValue(m.WorkloadPort, r.RoutingKey)] = match
		}
	}
	return entries, nil
}

func treeOf(input *xdscorev3.TypedExtensionConfig, entries map[string]*matcherv3.Matcher_OnMatch) *matcherv3.Matcher_MatcherTree_ {
	return &matcherv3.Matcher_MatcherTree_{MatcherTree: &matcherv3.Matcher_MatcherTree{
		Input: input,
		TreeType: &matcherv3.Matcher_MatcherTree_ExactMatchMap{
			ExactMatchMap: &matcherv3.Matcher_MatcherTree_MatchMap{Map: entries},
		},
	}}
}

func entriesOf(t *rapid.T, host *routev3.VirtualHost) map[string]*matcherv3.Matcher_OnMatch {
	if err := host.ValidateAll(); err != nil {
		t.Fatalf("Envoy's own rules are broken: %v", err)
	}
	return host.GetMatcher().GetMatcherTree().GetExactMatchMap().GetMap()
}

func same(t *rapid.T, what string, want, got proto.Message) {
	if !proto.Equal(want, got) {
		t.Fatalf("%s (-want +got):\n%s", what, cmp.Diff(want, got, protocmp.Transform()))
	}
}

// world is a table that facts change.
type world struct {
	table.Table
	seq uint64
}

func (w *world) state(key event.Key, data proto.Message) {
	w.seq++
	w.Table = w.Apply(event.Recorded{Pos: event.Pos{Epoch: "e", Seq: w.seq}, Fact: event.Fact{Key: key, Data: data}})
}

// observe publishes the observation of the fork behind a key.
func (w *world) observe(key, baseline, address string, ports []uint32, ready bool) {
	service := &factv1.ServicePair{From: baseline, To: key, ClusterIp: address}
	for _, p := range ports {
		service.Ports = append(service.Ports, &factv1.PortPair{Port: 80, WorkloadPort: p})
	}
	w.state(event.Workload("ForkedWorkload", "hotrod", "fork-"+key), &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "hotrod", Name: "fork-" + key, Uid: "uid"},
		Created:  &timestamppb.Timestamp{Seconds: 1},
		Baseline: &factv1.ObjectRef{Kind: customer.Kind, Namespace: customer.Namespace, Name: baseline},
		Services: []*factv1.ServicePair{service}, Ready: ready,
	})
}

func (w *world) declare(key string) {
	w.state(event.RoutingKey(key), &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{
		{Kind: "ForkedWorkload", Namespace: "hotrod", Name: "fork-" + key, Sandbox: "sandbox-" + key},
	}})
}

// checkKept compares routes in the form that is kept on disk: the entries are those of parts, which sidecars
// of all releases take, and this one's Refit restores the whole.
func checkKept(t *rapid.T, whole Resource, parts map[string]*matcherv3.Matcher_OnMatch, want *routev3.RouteConfiguration) {
	kept, err := Portable(whole, "")
	if err != nil {
		t.Fatal(err)
	}
	fit, err := Refit(kept, false)
	if err != nil {
		t.Fatal(err)
	}
	onDisk, config := &routev3.RouteConfiguration{}, &routev3.RouteConfiguration{}
	if err := errors.Join(kept.Any.UnmarshalTo(onDisk), fit.Any.UnmarshalTo(config)); err != nil {
		t.Fatal(err)
	}
	entries := entriesOf(t, onDisk.VirtualHosts[0])
	if len(entries) != len(parts) || kept.Name != whole.Name || kept.Version != whole.Version {
		t.Fatalf("%d entries of %s, version %s, are kept; want %d", len(entries), kept.Name, kept.Version, len(parts))
	}
	for value, match := range entries {
		same(t, "on disk "+value, parts[value], match)
	}
	same(t, "from disk", want, config)
}

// checkRoutes compares routes with the expected ones, to the byte.
func checkRoutes(t *rapid.T, w *world, routes Translation) Resource {
	want, err := plainly(w.Table, customer)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := routes.Whole()
	if err != nil {
		t.Fatal(err)
	}
	config := &routev3.RouteConfiguration{}
	if err := whole.Any.UnmarshalTo(config); err != nil {
		t.Fatal(err)
	}
	same(t, "the whole", want, config)
	checkEncoded(t, whole)

	all, err := entriesFor(w.Table, customer, func(*routev3.Route) {})
	if err != nil {
		t.Fatal(err)
	}
	union := map[string]*matcherv3.Matcher_OnMatch{}
	for _, p := range routes.Parts() {
		checkEncoded(t, p)
		host := &routev3.VirtualHost{}
		if err := p.Any.UnmarshalTo(host); err != nil {
			t.Fatal(err)
		}
		i, err := PlaceOf(customer, p.Name)
		if err != nil || host.Name != partLabel(i) {
			t.Fatalf("part %s is called %s, %v", p.Name, host.Name, err)
		}
		for value, match := range entriesOf(t, host) {
			if _, twice := union[value]; twice || partOf(value) != i {
				t.Fatalf("%q is in part %d, twice: %v", value, i, twice)
			}
			union[value] = match
		}
	}
	if len(union) != len(all) {
		t.Fatalf("the parts have %d entries and the whole %d", len(union), len(all))
	}
	for value, match := range union {
		same(t, value, all[value], match)
	}
	checkKept(t, whole, all, want)
	checkEncoded(t, routes.Head())
	if routes.Head().Version != whole.Version || routes.Version() != whole.Version {
		t.Fatalf("the head is of version %s and the whole of %s", routes.Head().Version, whole.Version)
	}
	return whole
}

// checkEncoded compares a resource's other form with what the library writes.
func checkEncoded(t *rapid.T, r Resource) {
	want := &discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{{Name: r.Name, Version: r.Version, Resource: r.Any}}}
	got := &discoveryv3.DeltaDiscoveryResponse{}
	if err := proto.Unmarshal(r.Encoded, got); err != nil {
		t.Fatal(err)
	}
	same(t, r.Name, want, got)
}

// recomposed does the same as a client: it reads the resources and composes them.
func recomposed(t *rapid.T, head Resource, parts []Resource) Resource {
	h, err := ReadHead(customer, head)
	if err != nil {
		t.Fatal(err)
	}
	var all Parts
	for _, r := range parts {
		i, p, err := ReadPart(customer, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Unfit(); err != nil {
			t.Fatal(err)
		}
		all[i] = p
	}
	whole, err := Compose(h, &all)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// Whatever changes: routes that follow the changes equal those made from scratch, to the byte;
// composed parts equal the whole; each entry is in one part, its own; and different contents
// have different versions.
func TestRoutesInPartsAreTheRoutes(t *testing.T) {
	key := rapid.StringMatching(`[a-zA-Z0-9/.*%é]{1,3}`)
	port := rapid.SampledFrom([]uint32{1, 80, 8080, 65535})
	rapid.Check(t, func(t *rapid.T) {
		w := &world{}
		byVersion, byContent := map[string]string{}, map[string]string{}
		routes, err := Translate(w.Table, customer)
		if err != nil {
			t.Fatal(err)
		}
		older := w.Table
		t.Repeat(map[string]func(*rapid.T){
			"declare": func(t *rapid.T) { w.declare(key.Draw(t, "key")) },
			"withdraw": func(t *rapid.T) {
				k := key.Draw(t, "key")
				w.state(event.RoutingKey(k), &factv1.RoutingWithdrawn{RoutingKey: k})
			},
			"observe": func(t *rapid.T) {
				k := key.Draw(t, "key")
				w.declare(k)
				w.observe(k, rapid.SampledFrom([]string{customer.Name, customer.Name, "driver"}).Draw(t, "baseline"),
					rapid.SampledFrom([]string{"", "10.0.0.1", "fd00::2"}).Draw(t, "address"),
					rapid.SliceOfNDistinct(port, 0, 3, rapid.ID).Draw(t, "ports"), rapid.Bool().Draw(t, "ready"))
			},
			"": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "skip this one") {
					return // several changes at once
				}
				if routes, err = routes.Updated(w.Table, table.Diff(older, w.Table)); err != nil {
					t.Fatal(err)
				}
				older = w.Table
				whole := checkRoutes(t, w, routes)
				again := recomposed(t, routes.Head(), routes.Parts())
				scratch, err := Resources(w.Table, customer)
				if err != nil {
					t.Fatal(err)
				}
				content := string(whole.Any.Value)
				for _, other := range []Resource{again, scratch[0]} {
					if string(other.Any.Value) != content || other.Version != whole.Version {
						t.Fatalf("version %s of %d bytes is not version %s of %d bytes",
							other.Version, len(other.Any.Value), whole.Version, len(content))
					}
				}
				if was, known := byVersion[whole.Version]; known && was != content {
					t.Fatalf("two contents have version %s", whole.Version)
				}
				if was, known := byContent[content]; known && was != whole.Version {
					t.Fatalf("one content has versions %s and %s", was, whole.Version)
				}
				byVersion[whole.Version], byContent[content] = content, whole.Version
			},
		})
	})
}

func manyRules(n int) *world {
	w := &world{}
	for i := range n {
		k := fmt.Sprintf("sandbox-%d", i)
		w.declare(k)
		w.observe(k, customer.Name, "10.96.0.1", []uint32{8080}, true)
	}
	return w
}

func TestPartsAreOfLikeSizeAndOneChangeTouchesOne(t *testing.T) {
	w := manyRules(1000)
	was, err := Translate(w.Table, customer)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range was.parts {
		entries := 0
		if err := mapEntries(p.entries, func(string, []byte) error { entries++; return nil }); err != nil {
			t.Fatal(err)
		}
		if entries > 3*1000/PartCount {
			t.Errorf("part %d has %d of 1,000 entries", i, entries)
		}
	}
	older := w.Table
	w.observe("sandbox-7", customer.Name, "10.96.0.2", []uint32{8080}, true)
	is, err := was.Updated(w.Table, table.Diff(older, w.Table))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i := range is.parts {
		if is.parts[i] != was.parts[i] {
			changed++
		}
	}
	if changed != 1 || is.Version() == was.Version() {
		t.Errorf("%d parts were written anew, version %s after %s", changed, is.Version(), was.Version())
	}
}

func TestNamesOfParts(t *testing.T) {
	names := PartNames(customer)
	if len(names) != PartCount+1 || !slices.IsSorted(names) || names[0] != "routes/Deployment/hotrod/customer/00" ||
		names[PartCount-1] != "routes/Deployment/hotrod/customer/3f" || names[PartCount] != "routes/Deployment/hotrod/customer/head" {
		t.Errorf("got %v", names)
	}
	for i, name := range names[:PartCount] {
		if got, err := PlaceOf(customer, name); err != nil || got != i {
			t.Errorf("%s is part %d, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "head", RouteName(customer), HeadName(customer), RouteName(customer) + "/40", RouteName(customer) + "/0", RouteName(customer) + "/+1", RouteName(customer) + "/3F"} {
		if i, err := PlaceOf(customer, name); err == nil {
			t.Errorf("%q is part %d", name, i)
		}
	}
}

// damaged returns a resource with other content under its name and version.
func damaged(r Resource, change func([]byte) []byte) Resource {
	return written(r.Type, r.Name, r.Version, change(slices.Clone(r.Any.Value)))
}

func TestInvalidPartsAreRejected(t *testing.T) {
	routes, err := routesOf(rule("k1", "a", to(80, "10.0.0.1")))
	if err != nil {
		t.Fatal(err)
	}
	part, head := routes.Parts()[0], routes.Head()
	other := table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "other"}
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	_, _, part0 := ReadPart(other, part)
	_, _, part1 := ReadPart(customer, damaged(part, cut))
	_, _, part2 := ReadPart(customer, damaged(part, func(b []byte) []byte { return b[:10] }))
	_, _, part3 := ReadPart(customer, damaged(part, func(b []byte) []byte { b[len(b)-3] ^= 1; return b }))
	_, _, part4 := ReadPart(customer, head)
	_, head0 := ReadHead(other, head)
	_, head1 := ReadHead(customer, damaged(head, cut))
	_, head2 := ReadHead(customer, part)
	_, head3 := ReadHead(customer, damaged(head, func([]byte) []byte { return nil }))
	for what, err := range map[string]error{
		"a part of another workload": part0, "a part cut off": part1, "half a part": part2,
		"a part with other content": part3, "the head for a part": part4,
		"the head of another": head0, "a head cut off": head1, "a part for the head": head2, "an empty head": head3,
	} {
		if err == nil || !strings.Contains(err.Error(), "routes/") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestAKeyThatIsNotUTF8IsAnErrorThatNamesTheSandbox(t *testing.T) {
	_, err := routesOf(rule("k\xff", "feature", to(80, "10.0.0.1")))
	if err == nil || !strings.Contains(err.Error(), "feature") {
		t.Errorf("got %v", err)
	}
	if errors.Is(err, errMalformed) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkFromScratch(b *testing.B) {
	w := manyRules(1000)
	for b.Loop() {
		if _, err := Translate(w.Table, customer); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOneChange is one rule of 1,000 changed: the routes, and the resources that are sent.
func BenchmarkOneChange(b *testing.B) {
	w := manyRules(1000)
	routes, err := Translate(w.Table, customer)
	if err != nil {
		b.Fatal(err)
	}
	sent, i := 0, 0
	for b.Loop() {
		older := w.Table
		i++
		w.observe(fmt.Sprintf("sandbox-%d", i%1000), customer.Name, fmt.Sprintf("10.96.%d.%d", i>>8&255, i&255), []uint32{8080}, true)
		was := routes
		if routes, err = routes.Updated(w.Table, table.Diff(older, w.Table)); err != nil {
			b.Fatal(err)
		}
		sent += len(routes.Head().Encoded)
		for p := range routes.parts {
			if routes.parts[p] != was.parts[p] {
				sent += len(routes.parts[p].Encoded)
			}
		}
	}
	whole, err := routes.Whole()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(sent)/float64(i), "sent-B/op")
	b.ReportMetric(float64(len(whole.Encoded)), "whole-B")
}

// BenchmarkCompose is what a client does after one change of 1,000 rules.
func BenchmarkCompose(b *testing.B) {
	routes, err := Translate(manyRules(1000).Table, customer)
	if err != nil {
		b.Fatal(err)
	}
	part := routes.Parts()[0]
	for b.Loop() {
		h, err := ReadHead(customer, routes.Head())
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := ReadPart(customer, part); err != nil {
			b.Fatal(err)
		}
		if _, err := Compose(h, &routes.parts); err != nil {
			b.Fatal(err)
		}
	}
}
