package serve

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"switchyard.dev/xds/delta"
)

func read(t interface{ Fatal(...any) }, r *discoveryv3.DeltaDiscoveryRequest) *discoveryv3.DeltaDiscoveryRequest {
	b, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got := &discoveryv3.DeltaDiscoveryRequest{}
	if err := readRequest(b, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// Within the limits a request is read as protobuf reads it, but for the node and the code and
// details of an error, which are not used.
func TestARequestIsReadAsProtobufHasIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.String(), 0, 5)
		want := &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: rapid.String().Draw(t, "type"), ResponseNonce: rapid.String().Draw(t, "nonce"),
			ResourceNamesSubscribe: names.Draw(t, "subscribe"), ResourceNamesUnsubscribe: names.Draw(t, "unsubscribe"),
			InitialResourceVersions: rapid.MapOfN(rapid.String(), rapid.StringN(0, 16, 64), 0, 5).Draw(t, "versions"),
		}
		if rapid.Bool().Draw(t, "refuses") {
			want.ErrorDetail = &statuspb.Status{Message: rapid.String().Draw(t, "words")}
		}
		said := proto.Clone(want).(*discoveryv3.DeltaDiscoveryRequest)
		said.Node = &corev3.Node{Id: "somebody"}
		if said.ErrorDetail != nil {
			said.ErrorDetail.Code, said.ErrorDetail.Details = 13, []*anypb.Any{{TypeUrl: "more"}}
		}
		if diff := cmp.Diff(want, read(t, said), protocmp.Transform()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestNoMoreOfARequestIsReadThanMayBe(t *testing.T) {
	request := &discoveryv3.DeltaDiscoveryRequest{
		ResourceNamesSubscribe: make([]string, 100_000), ResourceNamesUnsubscribe: make([]string, 100_000),
		InitialResourceVersions: map[string]string{},
		ErrorDetail:             &statuspb.Status{Message: strings.Repeat("ä", 10_000)},
	}
	for n := range 20_000 {
		request.InitialResourceVersions[fmt.Sprint(n)] = "v"
	}
	got := read(t, request)
	if n := len(got.ResourceNamesSubscribe); n != delta.MaxNames+1 {
		t.Errorf("%d names, want one more than there may be", n)
	}
	if n := len(got.ResourceNamesUnsubscribe); n > delta.MaxNames+1 {
		t.Errorf("%d names to unsubscribe", n)
	}
	if n := len(got.InitialResourceVersions); n != delta.MaxNames {
		t.Errorf("%d versions", n)
	}
	if n := len(got.ErrorDetail.Message); n == 0 || n > delta.MaxWords {
		t.Errorf("%d bytes of words", n)
	}
	request = &discoveryv3.DeltaDiscoveryRequest{InitialResourceVersions: map[string]string{
		"ours": strings.Repeat("v", delta.MaxVersion), "not ours": strings.Repeat("v", delta.MaxVersion+1),
	}}
	if got := read(t, request).InitialResourceVersions; len(got) != 1 || got["ours"] == "" {
		t.Errorf("got %v", got)
	}
}

func TestARequestThatIsNoneIsAnError(t *testing.T) {
	for name, b := range map[string]string{
		"a field that is cut off": "\x1a\x05ab", "no field": "\xff", "text that is not UTF-8": "\x12\x01\xff",
		"a version cut off": "\x2a\x02\x0a\x05",
	} {
		if err := readRequest([]byte(b), &discoveryv3.DeltaDiscoveryRequest{}); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
