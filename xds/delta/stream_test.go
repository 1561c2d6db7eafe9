package delta_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"pgregory.net/rapid"

	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

const typeURL = translate.RouteType

var errForeign = errors.New("not yours")

func open() *delta.Stream {
	return delta.New([]string{typeURL}, func(_, name string) error {
		if name == "foreign" {
			return errForeign
		}
		return nil
	})
}

func resource(name, version string) translate.Resource {
	return translate.Resource{Type: typeURL, Name: name, Version: version}
}

func subscribe(names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names}
}

func answer(r *delta.Response, err string) *discoveryv3.DeltaDiscoveryRequest {
	request := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.Type, ResponseNonce: r.Nonce}
	if err != "" {
		request.ErrorDetail = &statuspb.Status{Message: err}
	}
	return request
}

// must takes in a request that is in order.
func must(t *testing.T, s *delta.Stream, r *discoveryv3.DeltaDiscoveryRequest) {
	t.Helper()
	if _, err := s.Receive(r); err != nil {
		t.Fatal(err)
	}
}

// expect takes the next response and compares it with name=version, or -name
// for a removal. It returns the response.
func expect(t *testing.T, s *delta.Stream, resources []translate.Resource, want ...string) *delta.Response {
	t.Helper()
	lacks := s.Due(resources)
	response := s.Next(resources)
	if lacks != (response != nil) {
		t.Fatalf("due: %v, and next comes %v", lacks, response)
	}
	var got []string
	if due := response != nil; due {
		for _, r := range response.Resources {
			got = append(got, r.Name+"="+r.Version)
		}
		for _, name := range response.Removed {
			got = append(got, "-"+name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("response (-want +got):\n%s", diff)
	}
	return response
}

func TestOnlyWhatIsAskedForIsSentAndOnlyOnce(t *testing.T) {
	s, all := open(), []translate.Resource{resource("a", "1"), resource("b", "1")}
	expect(t, s, all)
	must(t, s, subscribe("a"))
	r := expect(t, s, all, "a=1")
	expect(t, s, all)
	must(t, s, answer(r, ""))
	expect(t, s, all)
}

func TestOneResponseIsUnderWayAndTheNewestFollows(t *testing.T) {
	s := open()
	must(t, s, subscribe("a"))
	r := expect(t, s, []translate.Resource{resource("a", "1")}, "a=1")
	for v := range 5 {
		expect(t, s, []translate.Resource{resource("a", fmt.Sprint(v+2))})
	}
	must(t, s, answer(r, ""))
	expect(t, s, []translate.Resource{resource("a", "6")}, "a=6")
}

func TestARefusedVersionIsNotSentAgainUntilTheContentChanges(t *testing.T) {
	s := open()
	must(t, s, subscribe("a"))
	must(t, s, answer(expect(t, s, []translate.Resource{resource("a", "1")}, "a=1"), ""))
	must(t, s, answer(expect(t, s, []translate.Resource{resource("a", "2")}, "a=2"), "bad cluster"))
	for range 3 {
		expect(t, s, []translate.Resource{resource("a", "2")})
	}
	want := []delta.Status{{Type: typeURL, Name: "a", Sent: "2", Acked: "1", Rejected: "2", Error: "bad cluster"}}
	if diff := cmp.Diff(want, s.Statuses(nil, nil)); diff != "" {
		t.Error(diff)
	}
	expect(t, s, []translate.Resource{resource("a", "1")}) // it still has that
	must(t, s, answer(expect(t, s, []translate.Resource{resource("a", "3")}, "a=3"), ""))
	if got := s.Statuses(nil, nil)[0]; got.Acked != "3" || got.Rejected != "" || got.Error != "" {
		t.Errorf("after accepting: %+v", got)
	}
}

func TestAnAnswerToAnotherResponseChangesNothing(t *testing.T) {
	s := open()
	must(t, s, subscribe("a"))
	expect(t, s, []translate.Resource{resource("a", "1")}, "a=1")
	stale := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: "0", ResourceNamesSubscribe: []string{"b"}}
	if settled, err := s.Receive(stale); settled || err != nil {
		t.Fatalf("settled %v, %v", settled, err)
	}
	expect(t, s, []translate.Resource{resource("a", "2")})
	if got := s.Statuses(nil, nil); len(got) != 2 || got[0].Acked != "" {
		t.Errorf("got %+v, want the new subscription and nothing acknowledged", got)
	}
}

func TestAClientThatComesBackIsNotSentWhatItHas(t *testing.T) {
	s, all := open(), []translate.Resource{resource("a", "1"), resource("b", "2")}
	first := subscribe("a", "b", "c")
	first.InitialResourceVersions = map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"}
	must(t, s, first)
	expect(t, s, all, "b=2", "-c")
}

func TestDeletedResourcesAreRemovedOnceAndCanReturn(t *testing.T) {
	s := open()
	must(t, s, subscribe("a"))
	must(t, s, answer(expect(t, s, nil, "-a"), ""))
	expect(t, s, nil)
	must(t, s, answer(expect(t, s, []translate.Resource{resource("a", "1")}, "a=1"), ""))
	must(t, s, answer(expect(t, s, nil, "-a"), ""))
	must(t, s, answer(expect(t, s, []translate.Resource{resource("a", "1")}, "a=1"), ""))
}

func TestAskingAgainSendsAgain(t *testing.T) {
	s, all := open(), []translate.Resource{resource("a", "1")}
	must(t, s, subscribe("a"))
	must(t, s, answer(expect(t, s, all, "a=1"), ""))
	must(t, s, subscribe("a"))
	expect(t, s, all, "a=1")
}

func TestUnsubscribedResourcesAreNotSent(t *testing.T) {
	s := open()
	must(t, s, subscribe("a", "b"))
	must(t, s, answer(expect(t, s, []translate.Resource{resource("a", "1"), resource("b", "1")}, "a=1", "b=1"), ""))
	must(t, s, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesUnsubscribe: []string{"a"}})
	expect(t, s, []translate.Resource{resource("a", "2"), resource("b", "2")}, "b=2")
}

func TestRequestsThatEndTheStream(t *testing.T) {
	var invalid *delta.InvalidError
	many := make([]string, delta.MaxNames+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	cases := map[string]*discoveryv3.DeltaDiscoveryRequest{
		"no names at first":   subscribe(),
		"the wildcard":        subscribe("*"),
		"the wildcard inside": subscribe("a", "*"),
		"an unknown type":     {TypeUrl: "type.googleapis.com/x", ResourceNamesSubscribe: []string{"a"}},
		"too many names":      subscribe(many...),
	}
	for name, request := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := open().Receive(request); !errors.As(err, &invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := open().Receive(subscribe("foreign")); !errors.Is(err, errForeign) {
		t.Errorf("a name of somebody else's: got %v", err)
	}
}

// Whatever the order of events, a client that answers every response ends up with the current
// resources, except those that it refused, and is never sent a version that it has or refused
// last.
func TestAnyClientConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c"}
		s, server, client := open(), map[string]string{}, map[string]string{}
		refused, asked := map[string]bool{}, map[string]bool{}
		var underWay *delta.Response
		if _, err := s.Receive(subscribe("a")); err != nil {
			t.Fatal(err)
		}
		asked["a"] = true
		settle := func(refuse bool) {
			for _, r := range underWay.Resources {
				if client[r.Name] == r.Version && asked[r.Name] || refused[r.Name+r.Version] {
					t.Fatalf("%s=%s was sent for nothing", r.Name, r.Version)
				}
				if refuse {
					refused[r.Name+r.Version] = true
				} else {
					client[r.Name] = r.Version
				}
			}
			for _, name := range underWay.Removed {
				delete(client, name)
			}
			message := ""
			if refuse {
				message = "no"
			}
			if settled, err := s.Receive(answer(underWay, message)); err != nil || !settled {
				t.Fatal(settled, err)
			}
			underWay = nil
		}
		all := func() (all []translate.Resource) {
			for _, name := range slices.Sorted(maps.Keys(server)) {
				all = append(all, resource(name, server[name]))
			}
			return all
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				server[rapid.SampledFrom(names).Draw(t, "name")] = rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "version")
			},
			"remove": func(t *rapid.T) { delete(server, rapid.SampledFrom(names).Draw(t, "name")) },
			"subscribe": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "name")
				if asked[name] {
					return
				}
				asked[name] = true
				delete(client, name)
				if _, err := s.Receive(subscribe(name)); err != nil {
					t.Fatal(err)
				}
			},
			"next": func(t *rapid.T) {
				r := s.Next(all())
				if r != nil && underWay != nil {
					t.Fatal("a second response under way")
				}
				if r != nil {
					underWay = r
				}
			},
			"settle": func(t *rapid.T) {
				if underWay == nil {
					return
				}
				settle(rapid.Bool().Draw(t, "refuse"))
			},
		})
		if underWay != nil {
			settle(false)
		}
		for range 3 {
			if underWay = s.Next(all()); underWay != nil {
				settle(false)
			}
		}
		for name := range asked {
			if client[name] != server[name] && !refused[name+server[name]] {
				t.Fatalf("%s: the client has %q, the server %q", name, client[name], server[name])
			}
		}
	})
}

func TestANameThatIsAskedForAnewIsSentAnewWhateverWasUnderWay(t *testing.T) {
	all := []translate.Resource{resource("a", "1")}
	unsubscribe := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesUnsubscribe: []string{"a"}}
	for name, again := range map[string][]*discoveryv3.DeltaDiscoveryRequest{
		"after it was given up": {unsubscribe, subscribe("a")},
		"without giving it up":  {subscribe("a")},
	} {
		t.Run(name, func(t *testing.T) {
			s := open()
			must(t, s, subscribe("a"))
			r := expect(t, s, all, "a=1")
			for _, request := range again {
				must(t, s, request)
			}
			must(t, s, answer(r, ""))
			expect(t, s, all, "a=1")
		})
	}
}
