package istio_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

// lawful checks the invariants of all renderings: rendering is idempotent, and does not change the
// owner's part.
func lawful(t interface{ Fatalf(string, ...any) }, m *istio.Mesh, object *unstructured.Unstructured, r istio.Rendering) {
	if again := m.Render(r.Object); again.Changed {
		t.Fatalf("%s: rendered again it differs:\n%s", r.Name, cmp.Diff(r.Object.Object, again.Object.Object))
	}
	if diff := cmp.Diff(istio.Strip(object).Object, istio.Strip(r.Object).Object); diff != "" {
		t.Fatalf("%s: without our part it is not what it was:\n%s", r.Name, diff)
	}
}

// keyHeader is a configured header.
const keyHeader = "x-team"

// world returns the installation of the random tests: a Service with one port, and one with several
// ports of which its sandbox only has some.
func world(labels bool) (istio.Settings, []istio.Service) {
	settings := istio.Settings{ClusterDomain: "cluster.local", Headers: []string{keyHeader}}
	if labels {
		settings.Labels = map[string]string{"team": "a", "tier": "b"}
		settings.Annotations = map[string]string{"note": "a"}
	}
	to := func(service string, ports ...int32) (all []crdv1.IstioPortMapping) {
		for _, port := range ports {
			all = append(all, crdv1.IstioPortMapping{FromPort: port, ToService: service})
		}
		return all
	}
	return settings, []istio.Service{
		{Namespace: "app", Name: "customer", Ports: []int32{8081}, Sandboxes: []istio.Sandbox{
			{Key: "k1", Mappings: to("customer-k1", 8081)}, {Key: "k2", Mappings: to("customer-k2", 8081)},
		}},
		{Namespace: "app", Name: "shop", Ports: []int32{80, 9090, 9091}, Sandboxes: []istio.Sandbox{
			{Key: "k1", Mappings: to("shop-k1", 80, 9090)},
		}},
	}
}

// drawn is a source of random JSON.
type drawn struct{ *rapid.T }

func (d drawn) one(label string, of ...any) any { return rapid.SampledFrom(of).Draw(d.T, label) }

func (d drawn) maybe(label string) bool { return rapid.IntRange(0, 2).Draw(d.T, label) == 0 }

func (d drawn) text() map[string]any {
	kind := d.one("kind", "exact", "prefix", "regex").(string)
	return map[string]any{kind: d.one("text", "/", "/a", "/a/b", "/A", "/.*")}
}

func (d drawn) match() map[string]any {
	match := map[string]any{}
	if d.maybe("uri") {
		match["uri"] = d.text()
	}
	if d.maybe("ignoring") {
		match["ignoreUriCase"] = true
	}
	if d.maybe("headers") {
		header := d.one("header", "x-user", "x-user", keyHeader, "baggage").(string)
		match["headers"] = map[string]any{header: map[string]any{"regex": "jason|.*k1"}}
	}
	if d.maybe("without") {
		match["withoutHeaders"] = map[string]any{"x-user": map[string]any{"exact": "jason"}}
	}
	if d.maybe("port") {
		match["port"] = d.one("of", int64(80), int64(9090), int64(8081))
	}
	if d.maybe("gateways") {
		match["gateways"] = []any{d.one("gateway", "mesh", "app/edge")}
	}
	if d.maybe("labels") {
		match["sourceLabels"] = map[string]any{"app": d.one("label", "frontend", "cart")}
	}
	if d.maybe("unknown") {
		match["xFuture"] = []any{int64(1), 2.5, nil, map[string]any{"a": "b"}}
	}
	return match
}

func (d drawn) destination() map[string]any {
	destination := map[string]any{"host": d.one("host", "customer", "customer.app.svc.cluster.local", "shop", "shop", "audit", "customer.app", "shop.other.svc.cluster.local")}
	if d.maybe("subset") {
		destination["subset"] = "v1"
	}
	if d.maybe("with port") {
		destination["port"] = map[string]any{"number": d.one("number", int64(80), int64(9090), int64(9091), int64(8081))}
	}
	return destination
}

func (d drawn) route() map[string]any {
	entry := map[string]any{}
	if d.maybe("named") {
		entry["name"] = d.one("name", "a", "b", names.Prefix+"theirs", names.Prefix+"k1-customer-8081-00000000")
	}
	if n := rapid.IntRange(0, 3).Draw(d.T, "matches"); n > 0 {
		var matches []any
		for range n {
			matches = append(matches, d.match())
		}
		entry["match"] = matches
	}
	if d.maybe("redirect") {
		entry["redirect"] = map[string]any{"uri": "/"}
		return entry
	}
	var destinations []any
	for range rapid.IntRange(1, 3).Draw(d.T, "destinations") {
		destinations = append(destinations, map[string]any{"destination": d.destination(), "weight": int64(rapid.IntRange(0, 100).Draw(d.T, "weight"))})
	}
	entry["route"] = destinations
	if d.maybe("mirror") {
		entry["mirror"] = d.destination()
	}
	if d.maybe("mirrors") {
		entry["mirrors"] = []any{map[string]any{"destination": d.destination(), "percentage": map[string]any{"value": 12.5}}}
	}
	if d.maybe("settings") {
		entry["timeout"], entry["xFuture"] = "5s", map[string]any{"a": []any{"b"}}
		entry["retries"] = map[string]any{"attempts": int64(3)}
	}
	return entry
}

// virtualService draws a VirtualService without derived routes.
func (d drawn) virtualService() *unstructured.Unstructured {
	metadata := map[string]any{"namespace": "app", "name": "vs"}
	if d.maybe("labelled") {
		metadata["labels"] = map[string]any{"team": d.one("team", "a", "mine")}
	}
	if d.maybe("annotated") {
		metadata["annotations"] = map[string]any{"note": d.one("note", "a", "mine"), "other": "x"}
	}
	spec := map[string]any{"hosts": []any{"customer"}, "xFuture": true}
	if d.maybe("bound") {
		spec["gateways"] = []any{"mesh", "app/edge"}
	}
	if n := rapid.IntRange(0, 5).Draw(d.T, "routes"); n > 0 {
		var routes []any
		for range n {
			routes = append(routes, d.route())
		}
		spec["http"] = routes
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": metadata, "spec": spec,
	}}
}

func httpOf(object *unstructured.Unstructured) []any {
	spec, _ := object.Object["spec"].(map[string]any)
	list, _ := spec["http"].([]any)
	return list
}

func TestStrippingIsTheInverseOfRendering(t *testing.T) {
	routes := 0
	rapid.Check(t, func(t *rapid.T) {
		object := drawn{t}.virtualService()
		before := object.DeepCopy()
		settings, services := world(rapid.Bool().Draw(t, "labels"))
		m := istio.New(settings, services, []*unstructured.Unstructured{object})
		r := m.Render(object)
		if diff := cmp.Diff(before.Object, object.Object); diff != "" {
			t.Fatalf("the input has changed:\n%s", diff)
		}
		if diff := cmp.Diff(object.Object, istio.Strip(r.Object).Object); diff != "" {
			t.Fatalf("stripped it is not what it was:\n%s", diff)
		}
		lawful(t, m, object, r)
		routes += len(httpOf(r.Object)) - len(httpOf(object))
		// Without sandboxes all additions are removed.
		for i := range services {
			services[i].Sandboxes = nil
		}
		if gone := istio.New(settings, services, nil).Render(r.Object); !cmp.Equal(gone.Object.Object, object.Object) {
			t.Fatalf("taken back it is not what it was:\n%s", cmp.Diff(object.Object, gone.Object.Object))
		}
	})
	if routes == 0 {
		t.Error("no route of ours was seen")
	}
}

// TestAHostileCoAuthor rewrites, reorders and deletes parts of a VirtualService a thousand times, as
// another client. Each time, the owner's part is unchanged and one write restores the derived routes.
func TestAHostileCoAuthor(t *testing.T) {
	writes, hostile := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		settings, services := world(true)
		m := istio.New(settings, services, nil)
		object := m.Render(d.virtualService()).Object
		for range 10 {
			hostile++
			d.vandalise(object)
			theirs := istio.Strip(object)
			r := m.Render(object)
			if r.Changed {
				writes++
			}
			if stripped := istio.Strip(r.Object); !reflect.DeepEqual(theirs, stripped) {
				t.Fatalf("theirs has changed:\n%s", cmp.Diff(theirs.Object, stripped.Object))
			}
			if fresh := m.Render(theirs); !reflect.DeepEqual(fresh.Object, r.Object) {
				t.Fatalf("ours depends on what became of it:\n%s", cmp.Diff(fresh.Object.Object, r.Object.Object))
			}
			if again := m.Render(r.Object); again.Changed {
				t.Fatal("a second write follows the first")
			}
			object = r.Object
		}
	})
	if hostile < 1000 || writes == 0 || writes > hostile {
		t.Errorf("%d writes follow %d of theirs", writes, hostile)
	}
	t.Logf("%d writes of theirs, %d of ours", hostile, writes)
}

// vandalise makes a random change to the routes, labels or annotations of an object.
func (d drawn) vandalise(object *unstructured.Unstructured) {
	spec := object.Object["spec"].(map[string]any)
	list := slices.Clone(httpOf(object))
	at := func() int { return rapid.IntRange(0, len(list)-1).Draw(d.T, "at") }
	what := d.one("what", "delete", "swap", "rewrite", "rename", "add", "copy", "label", "wipe").(string)
	if len(list) == 0 {
		what = "add"
	}
	switch what {
	case "delete":
		i := at()
		list = slices.Delete(list, i, i+1)
	case "swap":
		i, j := at(), at()
		list[i], list[j] = list[j], list[i]
	case "rewrite":
		entry := runtime.DeepCopyJSONValue(list[at()]).(map[string]any)
		entry["timeout"] = "9s"
		entry["route"] = []any{map[string]any{"destination": d.destination()}}
		delete(entry, "redirect")
		list[at()] = entry
	case "rename":
		entry := runtime.DeepCopyJSONValue(list[at()]).(map[string]any)
		entry["name"] = fmt.Sprint(entry["name"], "x")
		list[at()] = entry
	case "add":
		list = append(list, d.route())
	case "copy":
		list = append(list, runtime.DeepCopyJSONValue(list[at()]))
	case "label":
		object.SetLabels(map[string]string{"team": "theirs"})
	case "wipe":
		object.SetAnnotations(nil)
		list = slices.DeleteFunc(list, func(entry any) bool {
			name, _ := entry.(map[string]any)["name"].(string)
			return strings.HasPrefix(name, names.Prefix)
		})
	}
	spec["http"] = list
}
