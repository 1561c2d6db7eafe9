package delta_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

func both() *delta.Stream {
	return delta.New([]string{translate.RouteType, translate.PartType}, func(string, string) error { return nil })
}

func part(name, version string) translate.Resource {
	return translate.Resource{Type: translate.PartType, Name: name, Version: version}
}

func subscribeParts(names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.PartType, ResourceNamesSubscribe: names}
}

// A client of parts keeps all parts of a response, whatever its answer. So the next response is
// the difference to the last one that was sent, not to the last one accepted.
func TestPartsOfARefusedResponseAreNotSentAgainAndThoseTakenBackAre(t *testing.T) {
	s := both()
	must(t, s, subscribeParts("00", "01", "head"))
	all := func(a, b, head string) []translate.Resource {
		return []translate.Resource{part("00", a), part("01", b), part("head", head)}
	}
	must(t, s, answer(expect(t, s, all("1", "1", "A"), "00=1", "01=1", "head=A"), ""))
	must(t, s, answer(expect(t, s, all("2", "2", "B"), "00=2", "01=2", "head=B"), "00 is bad"))
	expect(t, s, all("2", "2", "B"))
	must(t, s, answer(expect(t, s, all("2", "3", "C"), "01=3", "head=C"), "00 is bad"))
	// Back to the version that it accepted first: the client has other parts now, and until it
	// has answered it is not known to use it.
	back := expect(t, s, all("1", "1", "A"), "00=1", "01=1", "head=A")
	head := s.Statuses(nil, func(_, name string) bool { return name == "head" })
	want := []delta.Status{{Type: translate.PartType, Name: "head", Sent: "A", Rejected: "C", Error: "00 is bad"}}
	if diff := cmp.Diff(want, head); diff != "" || !head[0].InFlight() {
		t.Errorf("while it is under way, in flight %v:\n%s", head[0].InFlight(), diff)
	}
	must(t, s, answer(back, ""))
	expect(t, s, all("1", "1", "A"))
	must(t, s, answer(expect(t, s, []translate.Resource{part("00", "1"), part("head", "D")}, "head=D", "-01"), "no"))
	expect(t, s, []translate.Resource{part("00", "1"), part("head", "D")})
}

func TestTypesAreSentInTheirOrder(t *testing.T) {
	s, all := both(), []translate.Resource{resource("a", "1"), part("head", "1")}
	must(t, s, subscribeParts("head"))
	must(t, s, subscribe("a"))
	first := expect(t, s, all, "a=1")
	second := expect(t, s, all, "head=1") // one of each type may be under way
	must(t, s, answer(second, ""))
	must(t, s, answer(first, ""))
	expect(t, s, all)
}

// A client that follows the protocol, accepting or refusing at random, always has the parts
// that belong to the head it was sent.
func TestAClientOfPartsAlwaysHasWhatBelongsToItsHead(t *testing.T) {
	names := []string{"00", "01", "02", "head"}
	rapid.Check(t, func(t *rapid.T) {
		s, server, client := both(), map[string]string{"head": "0"}, map[string]string{}
		connect := func() {
			s = both()
			first := subscribeParts(names...)
			first.InitialResourceVersions = maps.Clone(client)
			if _, err := s.Receive(first); err != nil {
				t.Fatal(err)
			}
		}
		connect()
		changes := 0
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(t, "changes") {
					name := rapid.SampledFrom(names[:3]).Draw(t, "name")
					server[name] = rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "version")
					if server[name] == "" {
						delete(server, name)
					}
				}
				server["head"] = fmt.Sprint(server["00"], "/", server["01"], "/", server["02"])
				changes++
			},
			"answer": func(t *rapid.T) {
				var all []translate.Resource
				for _, name := range slices.Sorted(maps.Keys(server)) {
					all = append(all, part(name, server[name]))
				}
				due := s.Due(all)
				r := s.Next(all)
				if due != (r != nil) {
					t.Fatalf("due %v, next %v", due, r)
				}
				if r == nil {
					if !maps.Equal(client, server) {
						t.Fatalf("nothing is due; the client has %v, the server %v", client, server)
					}
					return
				}
				for _, one := range r.Resources {
					client[one.Name] = one.Version
				}
				for _, name := range r.Removed {
					delete(client, name)
				}
				if !maps.Equal(client, server) {
					t.Fatalf("the client has %v, the server %v", client, server)
				}
				refuse := rapid.SampledFrom([]string{"", "no"}).Draw(t, "refuse")
				if settled, err := s.Receive(answer(r, refuse)); err != nil || !settled {
					t.Fatal(settled, err)
				}
			},
			"come back": func(*rapid.T) { connect() },
		})
	})
}

func TestAResponseInPiecesIsTheResponse(t *testing.T) {
	routes, err := translate.Translate(table.Table{}, table.Workload{Kind: "Deployment", Namespace: "a", Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := routes.Whole()
	if err != nil {
		t.Fatal(err)
	}
	r := &delta.Response{
		Type: translate.PartType, Nonce: "17", Resources: []translate.Resource{routes.Head(), whole},
		Removed: []string{"00", strings.Repeat("x", 300)},
	}
	for _, encoded := range [][]byte{r.Resources[0].Encoded, nil} { // written before, or not
		r.Resources[0].Encoded = encoded
		pieces, err := r.Pieces()
		got := &discoveryv3.DeltaDiscoveryResponse{}
		if err != nil || proto.Unmarshal(bytes.Join(pieces, nil), got) != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Message(), got, protocmp.Transform()); diff != "" {
			t.Errorf("in pieces (-want +got):\n%s", diff)
		}
	}
	got := &discoveryv3.DeltaDiscoveryResponse{}
	plain, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(plain, got); err != nil || !proto.Equal(r.Message(), got) {
		t.Errorf("as a message: %v, %v", got, err)
	}
}

func TestMemoryOfAStreamIsCountedAndBounded(t *testing.T) {
	s := both()
	first := subscribe("a", "b", "b", "a")
	first.InitialResourceVersions = map[string]string{"a": strings.Repeat("v", 1000), "b": "1", "c": "1"}
	must(t, s, first)
	names, empty := s.Size()
	if names != 2 || empty > 1000 {
		t.Errorf("holds %d names and %d bytes", names, empty)
	}
	r := expect(t, s, []translate.Resource{resource("a", "1"), resource("b", "1")}, "a=1")
	must(t, s, answer(r, strings.Repeat("because ", 100_000)))
	if _, size := s.Size(); size < empty+1000 || size > empty+10_000 {
		t.Errorf("holds %d bytes after a long refusal, %d before", size, empty)
	}
	must(t, s, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesUnsubscribe: []string{"a", "b", "c"}})
	if names, size := s.Size(); names != 0 || size != 0 {
		t.Errorf("after it gave up all names it holds %d names and %d bytes", names, size)
	}
}

func TestAVersionThatWasRefusedIsNeverSentAgain(t *testing.T) {
	s := open()
	must(t, s, subscribe("a"))
	one, two := []translate.Resource{resource("a", "1")}, []translate.Resource{resource("a", "2")}
	must(t, s, answer(expect(t, s, one, "a=1"), "no"))
	must(t, s, answer(expect(t, s, two, "a=2"), "no"))
	expect(t, s, one)
	must(t, s, answer(expect(t, s, []translate.Resource{resource("a", "3")}, "a=3"), ""))
	expect(t, s, one)
	expect(t, s, two)
}

// BenchmarkOneChange is one part of 64 changed: sent and acknowledged.
func BenchmarkOneChange(b *testing.B) {
	s := both()
	w := table.Workload{Kind: "Deployment", Namespace: "a", Name: "b"}
	if _, err := s.Receive(subscribeParts(translate.PartNames(w)...)); err != nil {
		b.Fatal(err)
	}
	var all []translate.Resource
	for _, name := range translate.PartNames(w) {
		all = append(all, part(name, "0"))
	}
	versions := []string{"1", "2"}
	i := 0
	for b.Loop() {
		i++
		all[7].Version, all[64].Version = versions[i%2], versions[i%2]
		if !s.Due(all) {
			b.Fatal("nothing is due")
		}
		if _, err := s.Receive(answer(s.Next(all), "")); err != nil {
			b.Fatal(err)
		}
	}
}
