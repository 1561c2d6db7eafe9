package istio_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/keymatch"
	"switchyard.dev/xds/routingkey"
)

// request has the properties of a request that a proxy matches.
type request struct {
	path, gateway, label, namespace string
	port                            int64
	headers                         map[string]string
}

// takes reports whether the request meets a match of a VirtualService, by Istio's documentation.
func (q request) takes(match map[string]any) bool {
	if gateways, ok := match["gateways"].([]any); ok {
		if !slices.Contains(gateways, any(q.gateway)) {
			return false
		}
	} else if labels, ok := match["sourceLabels"].(map[string]any); ok && labels["app"] != q.label {
		return false
	} else if namespace, ok := match["sourceNamespace"]; ok && namespace != q.namespace {
		return false
	}
	if port, ok := match["port"].(int64); ok && port != q.port {
		return false
	}
	ignoring := match["ignoreUriCase"] == true
	if uri, ok := match["uri"].(map[string]any); ok && !holds(uri, q.path, true, ignoring) {
		return false
	}
	headers, _ := match["headers"].(map[string]any)
	for name, condition := range headers {
		value, there := q.headers[name]
		if !holds(condition.(map[string]any), value, there, false) {
			return false
		}
	}
	without, _ := match["withoutHeaders"].(map[string]any)
	for name, condition := range without {
		if value, there := q.headers[name]; holds(condition.(map[string]any), value, there, false) {
			return false
		}
	}
	return true
}

func holds(condition map[string]any, value string, there, ignoring bool) bool {
	if !there {
		return false
	}
	for kind, text := range condition {
		text := text.(string)
		if ignoring && kind != "regex" {
			text, value = strings.ToLower(text), strings.ToLower(value)
		}
		switch kind {
		case "exact":
			return value == text
		case "prefix":
			return strings.HasPrefix(value, text)
		case "regex":
			re, err := keymatch.Compile(text)
			return err == nil && re.MatchString(value)
		}
	}
	return true
}

// decide returns the first route that matches the request, or nil.
func (q request) decide(routes []any) map[string]any {
	for _, one := range routes {
		entry := one.(map[string]any)
		matches, _ := entry["match"].([]any)
		if len(matches) == 0 || slices.ContainsFunc(matches, func(m any) bool { return q.takes(m.(map[string]any)) }) {
			return entry
		}
	}
	return nil
}

// joinable reports whether a match that the request meets can be combined with a match on a header.
func (q request) joinable(entry map[string]any, header string) bool {
	matches, _ := entry["match"].([]any)
	return len(matches) == 0 || slices.ContainsFunc(matches, func(m any) bool {
		match := m.(map[string]any)
		headers, _ := match["headers"].(map[string]any)
		_, own := headers[header]
		return q.takes(match) && !own
	})
}

// expected returns the expected route for a request with a key: each destination is replaced with the
// Service that the sandbox has for its port, if any.
func (q request) expected(entry map[string]any, key string) map[string]any {
	_, services := world(false)
	entry = runtime.DeepCopyJSON(entry)
	replace := func(destination map[string]any) {
		for _, s := range services {
			if host := destination["host"]; host != s.Name && host != s.Name+".app.svc.cluster.local" {
				continue
			}
			port := q.port
			if explicit, ok := destination["port"].(map[string]any); ok {
				port = explicit["number"].(int64)
			} else if len(s.Ports) == 1 {
				port = int64(s.Ports[0])
			}
			for _, sandbox := range s.Sandboxes {
				for _, mapping := range sandbox.Mappings {
					if sandbox.Key == key && int64(mapping.FromPort) == port {
						destination["host"] = mapping.ToService + ".app.svc.cluster.local"
						destination["port"] = map[string]any{"number": port}
						delete(destination, "subset")
						return
					}
				}
			}
		}
	}
	for _, field := range []string{"route", "mirrors"} {
		list, _ := entry[field].([]any)
		for _, one := range list {
			replace(one.(map[string]any)["destination"].(map[string]any))
		}
	}
	if mirror, ok := entry["mirror"].(map[string]any); ok {
		replace(mirror)
	}
	return entry
}

// apart returns a route without name and matches, which differ between derived routes and originals.
func apart(entry map[string]any) map[string]any {
	entry = runtime.DeepCopyJSON(entry)
	delete(entry, "name")
	delete(entry, "match")
	return entry
}

// request draws a request with a routing key in one of the headers that carry it, or with an empty key.
func (d drawn) request() (q request, key, header string) {
	q = request{
		path: d.one("path", "/", "/a", "/a/b/c", "/A/B", "x").(string), gateway: d.one("at", "mesh", "app/edge").(string),
		label: d.one("from", "frontend", "cart").(string), namespace: d.one("of", "team", "app").(string),
		port: d.one("port", int64(80), int64(9090), int64(9091), int64(7)).(int64), headers: map[string]string{},
	}
	if d.maybe("user") {
		q.headers["x-user"] = "jason"
	}
	key, header = d.one("key", "k1", "k2", "k3", "").(string), d.one("in", "baggage", "tracestate", keyHeader).(string)
	if form := routingkey.Form(header); header == keyHeader {
		q.headers[header] = routingkey.FormCustom.Header(key)
	} else {
		q.headers[header] = "a=b," + form.Header(key) + ",c=d"
	}
	return q, key, header
}

// compareRequest compares the routes for a request before and after rendering. It returns 1 if the
// request reached a sandbox, otherwise 0.
func compareRequest(t interface{ Fatalf(string, ...any) }, q request, key, header string, owner, rendered []any) int {
	before, now := q.decide(owner), q.decide(rendered)
	if before == nil || now == nil {
		if before != nil || now != nil {
			t.Fatalf("%+v: %v before, and %v now", q, before, now)
		}
		return 0
	}
	want := apart(before)
	if q.joinable(before, header) {
		want = apart(q.expected(before, key))
	}
	if diff := cmp.Diff(want, apart(now)); diff != "" {
		t.Fatalf("%+v with the key %q in %s (-want +got):\n%s", q, key, header, diff)
	}
	if cmp.Equal(before, now) {
		return 0
	}
	return 1
}

// TestRequestsReachWhatTheyShould compares, for random VirtualServices and requests, the first matching
// route before and after rendering: without a key it is the same, with a key only the destinations
// differ.
func TestRequestsReachWhatTheyShould(t *testing.T) {
	keyed := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		object := d.virtualService()
		settings, services := world(false)
		m := istio.New(settings, services, []*unstructured.Unstructured{object})
		rendered := httpOf(m.Render(object).Object)
		for range 10 {
			q, key, header := d.request()
			keyed += compareRequest(t, q, key, header, httpOf(object), rendered)
		}
	})
	if keyed == 0 {
		t.Error("no request reached a sandbox")
	}
	t.Logf("%d requests reached a sandbox", keyed)
}
