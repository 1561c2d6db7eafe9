package assembly_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/assembly"
	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

var customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}

// Addresses of forks. The proxy refuses a whole that contains refused; better is never refused.
const (
	good, better = "10.0.0.1", "10.0.0.2"
	refused      = "10.0.9.9"
	unfit        = "127.0.0.1"
)

// world is a sidecar, its proxy, and the route server's table.
type world struct {
	*testing.T
	table table.Table
	seq   uint64
	*assembly.Assembly
	// tried are the wholes that the proxy was asked about, has the one it took last.
	tried []translate.Resource
	has   []byte
	held  []string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t}
	w.Assembly = assembly.New(customer, false, "secret", func(_ string, sandboxes []string, _ string) { w.held = append(w.held, sandboxes...) })
	return w
}

// fork routes a routing key to an address.
func (w *world) fork(key, address string) {
	fact := func(k event.Key, data proto.Message) event.Recorded {
		w.seq++
		return event.Recorded{Pos: event.Pos{Epoch: "e", Seq: w.seq}, Fact: event.Fact{Key: k, Data: data}}
	}
	w.table = w.table.Apply(
		fact(event.RoutingKey(key), &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "hotrod", Name: "fork-" + key, Sandbox: "sb-" + key},
		}}),
		fact(event.Workload("ForkedWorkload", "hotrod", "fork-"+key), &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "hotrod", Name: "fork-" + key, Uid: "uid"},
			Baseline: &factv1.ObjectRef{Kind: customer.Kind, Namespace: customer.Namespace, Name: customer.Name},
			Services: []*factv1.ServicePair{{From: customer.Name, To: key, ClusterIp: address, Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}},
			Ready:    true,
		}))
}

// sent is what the route server sends of the table: what the sidecar has not, or all.
func (w *world) sent() *discoveryv3.DeltaDiscoveryResponse {
	w.Helper()
	made, err := translate.Translate(w.table, customer)
	if err != nil {
		w.Fatal(err)
	}
	has := w.Versions()
	response := &delta.Response{Type: translate.PartType}
	for _, p := range append(made.Parts(), made.Head()) {
		if has[p.Name] != p.Version {
			response.Resources = append(response.Resources, p)
		}
	}
	return response.Message()
}

// proxy accepts a whole unless it contains the address that it refuses.
func (w *world) proxy(whole translate.Resource) (refusal string, err error) {
	w.tried = append(w.tried, whole)
	if bytes.Contains(whole.Any.GetValue(), []byte(refused)) {
		return "it leads to " + refused, nil
	}
	w.has = whole.Any.GetValue()
	return "", nil
}

// update has the table come to the proxy, and returns why it has not all of it.
func (w *world) update() string {
	w.Helper()
	w.tried = nil
	if err := w.Take(w.sent()); err != nil {
		w.Fatal(err)
	}
	whole, err := w.Whole()
	if err != nil {
		w.Fatal(err)
	}
	reason, err := w.Bring(whole, w.proxy)
	if err != nil {
		w.Fatal(err)
	}
	return reason
}

// leads reports whether the proxy's routes contain an address.
func (w *world) leads(address string) bool { return bytes.Contains(w.has, []byte(address)) }

func TestAWholeIsPutTogetherOfWhatHasChanged(t *testing.T) {
	w := newWorld(t)
	if w.HasHead() {
		t.Error("there is a head before anything has come")
	}
	for i := range 100 {
		w.fork(fmt.Sprint("k", i), good)
	}
	if reason := w.update(); reason != "" || !w.leads(good) || len(w.tried) != 1 {
		t.Errorf("tried %d times: %q", len(w.tried), reason)
	}
	w.fork("k7", better)
	if n := len(w.sent().GetResources()); n != 2 {
		t.Errorf("%d resources are sent for one change; a head and a part are enough", n)
	}
	if reason := w.update(); reason != "" || !w.leads(better) {
		t.Errorf("the change is not in use: %q", reason)
	}
	if made, err := translate.Translate(w.table, customer); err != nil || w.tried[0].Version != made.Version() || w.Version() != made.Version() {
		t.Errorf("the whole has version %s, the head %s, and the route server's is %s (%v)", w.tried[0].Version, w.Version(), made.Version(), err)
	}
	w.Forget()
	if w.HasHead() || w.Version() != "" || len(w.Versions()) != 0 {
		t.Error("what is forgotten is still there")
	}
}

func TestPartsOfOtherVersionsAreNotAssembled(t *testing.T) {
	for what, spoil := range map[string]func(*discoveryv3.DeltaDiscoveryResponse){
		"a part is missing":       func(r *discoveryv3.DeltaDiscoveryResponse) { r.Resources = r.Resources[1:] },
		"a part is taken back":    func(r *discoveryv3.DeltaDiscoveryResponse) { r.RemovedResources = []string{r.Resources[0].Name} },
		"the head is another one": func(r *discoveryv3.DeltaDiscoveryResponse) { r.Resources[len(r.Resources)-1].Version = "other" },
	} {
		w := newWorld(t)
		w.fork("k1", good)
		w.fork("k2", good)
		sent := w.sent()
		spoil(sent)
		if err := w.Take(sent); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Whole(); !errors.Is(err, assembly.ErrNotWhole) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w := newWorld(t)
	if err := w.Take(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: translate.PartType, RemovedResources: []string{"another's"}}); err == nil {
		t.Error("what is no part is taken back")
	}
}

func TestTheProxyHasAllButWhatItRefuses(t *testing.T) {
	w := newWorld(t)
	w.fork("k", good)
	w.update()
	for i := range 12 { // in other parts than the bad one, most of them
		w.fork(fmt.Sprint("n", i), better)
	}
	w.fork("bad", refused)
	reason := w.update()
	held := len(w.held) // with those that are new in the same part
	if !strings.Contains(reason, "sandboxes sb-bad") || !strings.Contains(reason, "it leads to "+refused) || w.held[0] != "sb-bad" || held > 6 {
		t.Errorf("held %q, for the reason %q", w.held, reason)
	}
	if !w.leads(good) || bytes.Count(w.has, []byte(better)) < 13-held || !w.leads(translate.ReasonRefused) {
		t.Error("the others are not in use, or the bad key goes to the baseline")
	}
	w.fork("k", "10.0.0.3")
	if reason := w.update(); !strings.Contains(reason, "sb-bad") || !w.leads("10.0.0.3") || !w.leads(translate.ReasonRefused) || len(w.tried) != 1 || len(w.held) != held {
		t.Errorf("what is held back already is tried %d times, and held %q", len(w.tried), w.held)
	}
	w.Forget() // the stream broke off
	if reason := w.update(); !strings.Contains(reason, "sb-bad") || len(w.tried) != 1 {
		t.Errorf("after another stream it is tried %d times: %q", len(w.tried), reason)
	}
	w.fork("bad", "10.0.0.4")
	if reason := w.update(); reason != "" || !w.leads("10.0.0.4") || w.leads(translate.ReasonRefused) {
		t.Errorf("what is mended is not in use: %q", reason)
	}
	w.fork("bad", refused)
	if reason := w.update(); reason == "" || !w.leads("10.0.0.4") {
		t.Errorf("the route that it had is gone: %q", reason)
	}
}

func TestRoutesOfOtherFormsAreNotShown(t *testing.T) {
	w := newWorld(t)
	w.fork("k", good)
	w.fork("bad", unfit)
	reason := w.update()
	if !strings.Contains(reason, "sb-bad") || !w.leads(good) || !w.leads(translate.ReasonRefused) {
		t.Errorf("the reason is %q", reason)
	}
	for _, whole := range w.tried {
		if bytes.Contains(whole.Any.GetValue(), []byte(unfit)) {
			t.Error("the proxy was asked about it")
		}
	}
}

func TestAProxyThatTakesNothingHoldsNothingBack(t *testing.T) {
	w := newWorld(t)
	w.fork("k", good)
	w.fork("bad", refused)
	if err := w.Take(w.sent()); err != nil {
		t.Fatal(err)
	}
	whole, err := w.Whole()
	if err != nil {
		t.Fatal(err)
	}
	reason, err := w.Bring(whole, func(translate.Resource) (string, error) { return "no head like this", nil })
	if err != nil || reason != "no head like this" || w.held != nil {
		t.Errorf("held %q: %q, %v", w.held, reason, err)
	}
	asked, gone := 0, errors.New("the proxy is gone")
	_, err = w.Bring(whole, func(r translate.Resource) (string, error) {
		if asked++; asked == 3 { // while it is found out which of two parts is bad
			return "", gone
		}
		return w.proxy(r)
	})
	if !errors.Is(err, gone) || w.held != nil {
		t.Errorf("held %q, with %v", w.held, err)
	}
	if reason := w.update(); !strings.Contains(reason, "sb-bad") || !slices.Equal(w.held, []string{"sb-bad"}) {
		t.Errorf("later held %q: %q", w.held, reason)
	}
}
