package endpoints_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/preview/label"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// forms is a specification with endpoints in all published forms.
const forms = `{"cluster":"prod",
	"defaultRouteGroup":{"endpoints":[{"name":"web","target":"http://frontend.shop.svc:8080"},{"name":"Laptop","target":"grpc://cart.shop.deploy:50051/x?y#z"}]},
	"endpoints":[{"name":"old","host":"frontend.shop.svc","port":80,"protocol":"http"}],
	"forks":[
		{"forkOf":{"kind":"Deployment","namespace":"shop","name":"cart"},"endpoints":[{"name":"fork","port":8080,"protocol":"grpc"}]},
		{"forkOf":{"kind":"Rollout","namespace":"shop","name":"route"},"endpoints":[{"name":"rollout","port":8080,"protocol":"http"}]}],
	"local":[{"name":"cart","from":{"kind":"Deployment","namespace":"shop","name":"cart"},"mappings":[{"port":50051,"toLocal":"localhost:50051"}]}]}`

// summary has the fields of an endpoint.
func summary(e endpoints.Endpoint) string {
	return fmt.Sprintf("%s/%s %s %t %s %s %s|%s|%d %s host=%s", e.Cluster.Organisation, e.Cluster.Name, e.Owner, e.Group, e.Name, e.Path, e.Scheme, e.Host, e.Port, e.RoutingKey, strings.TrimPrefix(e.URL("p.example"), "https://"))
}

func TestEndpointsOfASandbox(t *testing.T) {
	got := endpoints.Of(model.Sandbox{Org: "acme", Name: "sb", Cluster: "prod", RoutingKey: "k1", Spec: json.RawMessage(forms)})
	want := []string{
		"acme/prod sb false web spec.defaultRouteGroup.endpoints[0] http|frontend.shop.svc|8080 k1 host=web--sb.p.example",
		"acme/prod sb false Laptop spec.defaultRouteGroup.endpoints[1] grpc|cart.shop.deploy|50051 k1 host=laptop--sb.p.example",
		"acme/prod sb false old spec.endpoints[0] http|frontend.shop.svc|80 k1 host=old--sb.p.example",
		"acme/prod sb false fork spec.forks[0].endpoints[0] grpc|cart.shop.deploy|8080 k1 host=fork--sb.p.example",
		"acme/prod sb false rollout spec.forks[1].endpoints[0] http|route.shop.rollout|8080 k1 host=rollout--sb.p.example",
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || summary(got[i]) != want[i] {
			t.Fatalf("%d: %+v, want %q", i, got, want)
		}
	}
}

func TestEndpointsOfARouteGroup(t *testing.T) {
	group := model.RouteGroup{Org: "acme", Name: "rg", Cluster: "", RoutingKey: "k2", Spec: json.RawMessage(`{"endpoints":[
		{"name":"a","target":"http://frontend.shop.svc:8080","cluster":"prod"}, {"name":"b","target":"http://frontend.shop.svc:8080"}]}`)}
	for cluster, want := range map[string]string{"": " host=", "staging": "staging rg true b spec.endpoints[1] http|frontend.shop.svc|8080 k2 host=b--rg.p.example"} {
		group.Cluster = cluster
		got := endpoints.OfGroup(group)
		if len(got) != 2 || summary(got[0]) != "acme/prod rg true a spec.endpoints[0] http|frontend.shop.svc|8080 k2 host=a--rg.p.example" || !strings.HasSuffix(summary(got[1]), want) {
			t.Errorf("in %q: %+v", cluster, got)
		}
	}
}

// TestTargets has the targets of endpoints, and the host and port that a preview of each has; "": it has none.
func TestTargets(t *testing.T) {
	for target, want := range map[string]string{
		"http://frontend.shop.svc:8080":                "frontend.shop.svc:8080",
		"http://frontend.shop.svc":                     "frontend.shop.svc:80",
		"HTTP://Frontend.shop.svc":                     "frontend.shop.svc:80",
		"https://frontend.shop.svc":                    "", // sidecars read no routing key there
		"tcp://frontend.shop.svc:1":                    "",
		"grpc://cart.shop.rollout:1":                   "cart.shop.rollout:1",
		"http://frontend.shop.svc.cluster.local:1":     "frontend.shop.svc.cluster.local:1",
		"http://pod-0.db.shop.svc:1":                   "pod-0.db.shop.svc:1",
		"http://frontend.shop:1":                       "frontend.shop:1",
		"grpc://cart.shop.deploy":                      "", // no port
		"http://cart.shop.deploy:0":                    "",
		"http://cart.shop.deploy:65536":                "",
		"http://cart:80":                               "",
		"http://169.254.169.254/latest/":               "",
		"http://[fd00:ec2::254]":                       "",
		"http://[::ffff:169.254.169.254]":              "",
		"http://10.0.0.1:80":                           "",
		"http://www.example.com":                       "",
		"http://frontend.shop.svc.cluster.local.x..:1": "",
		"http://frontend..svc:1":                       "",
		"http://a b.shop.svc:1":                        "",
		"frontend.shop.svc:8080":                       "",
		"":                                             "",
		"://":                                          "",
	} {
		text, err := json.Marshal(map[string]any{"defaultRouteGroup": map[string]any{"endpoints": []any{map[string]string{"name": "web", "target": target}}}})
		if err != nil {
			t.Fatal(err)
		}
		got := endpoints.Of(model.Sandbox{Name: "sb", Cluster: "prod", Spec: text})
		if len(got) != 1 || got[0].Target != target || (got[0].URL("p.example") != "") != (want != "") || want != "" && fmt.Sprintf("%s:%d", got[0].Host, got[0].Port) != want {
			t.Errorf("%s: %+v, want %q", target, got, want)
		}
	}
}

// named returns the endpoints of a sandbox with these names.
func named(owner string, names ...string) []endpoints.Endpoint {
	var all []map[string]string
	for _, name := range names {
		all = append(all, map[string]string{"name": name, "target": "http://frontend.shop.svc"})
	}
	text, err := json.Marshal(map[string]any{"defaultRouteGroup": map[string]any{"endpoints": all}})
	if err != nil {
		panic(err)
	}
	return endpoints.Of(model.Sandbox{Name: owner, Cluster: "prod", Spec: text})
}

// TestOneEndpointHasAHost: of two endpoints that were created before names were checked, the first has the preview.
func TestOneEndpointHasAHost(t *testing.T) {
	var urls []string
	for _, e := range named("sb", "a--b", "xn", "Web", "web", "we_b", "other") {
		urls = append(urls, cmp.Or(e.URL("p.example"), "none"))
	}
	if got, want := strings.Join(urls, " "), "none none https://web--sb.p.example none none https://other--sb.p.example"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestNamesOfNewEndpoints(t *testing.T) {
	names := func(all ...string) []string { return all }
	for _, tt := range []struct {
		owner         string
		asked, former []string
		want          string
	}{
		{"sb", names("web", "Api"), nil, ""},
		{"s--b", nil, nil, ""},
		{"sb", names("web", "a--b"), nil, `spec.defaultRouteGroup.endpoints[1].name is "a--b"; a name in`},
		{"s--b", names("web"), nil, `spec.defaultRouteGroup.endpoints[0].name is that of an endpoint of "s--b"; a name in`},
		{"sb", names("xn"), nil, `spec.defaultRouteGroup.endpoints[0].name is "xn"; hosts`},
		{"sb", names("web", "WEB"), nil, `spec.defaultRouteGroup.endpoints[1].name is "WEB", and its preview would have the same host as that of "web"`},
		// An object that exists can be written again, but no new endpoint takes the host of another.
		{"s--b", names("web", "a--b", "xn"), names("xn", "a--b", "web"), ""},
		{"sb", names("web", "WEB"), names("WEB", "web"), ""},
		{"sb", names("WEB", "web"), names("web"), `spec.defaultRouteGroup.endpoints[0].name is "WEB", and its preview`},
		{"s--b", names("web", "new"), names("web"), `spec.defaultRouteGroup.endpoints[1].name is that of an endpoint of "s--b"`},
	} {
		err := endpoints.Check(named(tt.owner, tt.asked...), named(tt.owner, tt.former...))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q of %q, formerly %q: %v, want %q", tt.asked, tt.owner, tt.former, err, tt.want)
		}
	}
}

func TestDomains(t *testing.T) {
	all := endpoints.Domains{"acme": "acme.example", "rival": "rival.example"}
	for _, tt := range []struct {
		org      string
		settings *linkv1.Configuration
		want     string
	}{
		{"acme", nil, "acme.example"},
		{"acme", &linkv1.Configuration{}, "acme.example"},
		{"acme", &linkv1.Configuration{PreviewDomain: "Previews.Example.NET."}, "previews.example.net"},
		{"acme", &linkv1.Configuration{PreviewDomain: "prod.acme.example"}, "prod.acme.example"},
		{"acme", &linkv1.Configuration{PreviewsDisabled: true}, ""},
		{"acme", &linkv1.Configuration{PreviewsDisabled: true, PreviewDomain: "previews.example.net"}, ""},
		{"none", &linkv1.Configuration{PreviewDomain: "previews.example.net"}, ""},
		{"acme", &linkv1.Configuration{PreviewDomain: "https://previews.example.net"}, "acme.example"},
		// Those of another organisation.
		{"acme", &linkv1.Configuration{PreviewDomain: "rival.example"}, "acme.example"},
		{"acme", &linkv1.Configuration{PreviewDomain: "RIVAL.example."}, "acme.example"},
		{"acme", &linkv1.Configuration{PreviewDomain: "x.rival.example"}, "acme.example"},
		{"rival", &linkv1.Configuration{PreviewDomain: "rival.example"}, "rival.example"},
	} {
		if got, _ := all.Of(model.Cluster{Org: tt.org, Config: endpoints.Reported(tt.settings)}); got != tt.want {
			t.Errorf("%s, %v: %q, want %q", tt.org, tt.settings, got, tt.want)
		}
	}
	if got, problem := (endpoints.Domains{"acme": "a.acme.example", "rival": "b.rival.example"}).Of(model.Cluster{Org: "acme", Config: json.RawMessage(`{"previews":{"customDomain":"rival.example"}}`)}); got != "a.acme.example" || !strings.Contains(problem, "customDomain of its operator is ignored") {
		t.Errorf("above that of another organisation: %q", got)
	}
	if got := endpoints.Reported(&linkv1.Configuration{Services: true}); got != nil {
		t.Errorf("without settings %s is stored", got)
	}
}

func TestFind(t *testing.T) {
	s := newStore(t)
	for _, tt := range []struct {
		org, endpoint, owner string
		want                 string // its target and key
	}{
		{"acme", "web", "sb", "frontend.shop.svc acme-sb"},
		{"acme", "laptop", "sb", "cart.shop.deploy acme-sb"},
		{"acme", "fork", "sb", "cart.shop.deploy acme-sb"},
		{"acme", "web", "rg", "group.shop.svc acme-rg"},
		{"rival", "web", "sb", "secret.shop.svc rival-sb"},
		{"acme", "web", "only", ""},
		{"rival", "web", "only", "secret.shop.svc rival-only"},
		{"acme", "none", "sb", ""},
		{"acme", "", "", ""},
		{"acme", "Laptop", "sb", ""}, // not a label that Parse returns
		{"acme", "metadata", "sb-2", ""},
		{"acme", "web", "ended", ""},
		{"none", "web", "sb", ""},
	} {
		e, err := endpoints.Find(t.Context(), s, tt.org, label.Label{Endpoint: tt.endpoint, Owner: tt.owner})
		if tt.want == "" && errors.Is(err, model.ErrNotFound) {
			continue
		}
		if got := e.Host + " " + e.RoutingKey; err != nil || got != tt.want || e.Cluster.Organisation != tt.org {
			t.Errorf("%+v: %+v, %v", tt, e, err)
		}
	}
	s.fail = errors.New("the disk is full")
	if _, err := endpoints.Find(t.Context(), s, "acme", label.Label{Endpoint: "web", Owner: "sb"}); !errors.Is(err, s.fail) || errors.Is(err, model.ErrNotFound) {
		t.Errorf("an error of the store: %v", err)
	}
}
