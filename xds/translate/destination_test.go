package translate

import (
	"bytes"
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// An address that was taken from its header and not found by DestinationFilter would send requests to the
// baseline: only the one form of routes to sandboxes is edited.
func TestOnlyRoutesToSandboxesAreEdited(t *testing.T) {
	fork := func() *routev3.Route { return forkRoute(RoutedSandbox+"s", netip.MustParseAddrPort("10.0.0.9:80")) }
	two, other, known := fork(), fork(), fork()
	two.RequestHeadersToAdd = append(two.RequestHeadersToAdd, header("x-other", "1"))
	other.RequestHeadersToAdd[0].Header.Key = "x-other"
	known.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"other": {}}}
	for name, route := range map[string]*routev3.Route{
		"two headers": two, "another header": other, "metadata of its own": known,
		"the application": appRoute(RoutedKept + "s"), "a refusal": refusal(RoutedSandbox+"s", ReasonNotReady, "no"),
	} {
		raw, err := entry(MatchValue(80, "k1"), route)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := forProxy(raw, true); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: got %x, %v; want %x", name, got, err, raw)
		}
		for _, typeURL := range []string{routeType, "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"} {
			whole := marshaled(t, &anypb.Any{TypeUrl: typeURL, Value: marshaled(t, route)})
			if got, err := movedBack(whole); err != nil || !bytes.Equal(got, whole) {
				t.Errorf("%s, on disk: got %x, %v; want %x", name, got, err, whole)
			}
		}
	}
	odd := marshaled(t, &anypb.Any{TypeUrl: "type.googleapis.com/envoy.config.route.v3.RouteAction", Value: marshaled(t, fork())})
	if got, err := retyped(odd, routeType, movedType, toHeader); err == nil {
		t.Errorf("a message that is no route became %x", got)
	}
	want := fork()
	moveDestination(want)
	raw, err := entry(MatchValue(80, "k1"), fork())
	if err != nil {
		t.Fatal(err)
	}
	edited, _, err := forProxy(raw, true)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(edited, []byte(movedType)) || bytes.Contains(edited, []byte(routeType)) {
		t.Errorf("%q is not of type %s", edited, movedType)
	}
	if got, err := routeIn(edited); err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func marshaled(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
