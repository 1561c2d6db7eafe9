package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/endpoints"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// TestURLsOfPreviews reads endpoints in all published forms, while the cluster's settings change.
func TestURLsOfPreviews(t *testing.T) {
	w := newWorld(t)
	const route = `{"forkOf":{"kind":"Deployment","namespace":"hotrod","name":"route"},"endpoints":[{"name":"route","port":8083,"protocol":"grpc"}]}`
	w.previews[org], w.previews["other-org"] = "preview.example.org", "preview.example.com"
	w.accepts("PUT", "/sandboxes/new-sb", `{"spec":{"cluster":"demo","forks":[`+route+`],"defaultRouteGroup":{"endpoints":[{"name":"front","target":"http://frontend.hotrod.svc:8080"},{"name":"ip","target":"http://10.0.0.1:80"}]},
		"endpoints":[{"name":"Old","host":"frontend.hotrod.svc","port":8080,"protocol":"http"}]}}`)
	w.accepts("PUT", "/routegroups/new-rg", `{"spec":{"match":{"label":{"key":"a","value":"b"}},"endpoints":[{"name":"front","target":"http://frontend.hotrod.svc:8080","cluster":"demo"}]}}`)
	const form = `"host":"frontend.hotrod.svc","name":"%s","port":8080,"protocol":"http","routeType":"host","target":"http://frontend.hotrod.svc:8080"%s`
	for _, tt := range []struct {
		config *linkv1.Configuration
		domain string
	}{
		{&linkv1.Configuration{}, "preview.example.org"},
		{&linkv1.Configuration{PreviewDomain: "demo.example.net"}, "demo.example.net"},
		{&linkv1.Configuration{PreviewDomain: "x.preview.example.com"}, "preview.example.org"}, // of the other organisation
		{&linkv1.Configuration{PreviewsDisabled: true}, ""},
		{&linkv1.Configuration{}, "preview.example.org"},
	} {
		w.must(w.store.ReportCluster(w.ctx(), model.Cluster{Org: org, Name: "demo", OperatorVersion: "1.2.0", Config: endpoints.Reported(tt.config)}))
		url := func(host string) string {
			if tt.domain == "" {
				return ""
			}
			return fmt.Sprintf(`,"url":"https://%s.%s"`, host, tt.domain)
		}
		want := fmt.Sprintf("[{"+form+"},{%s},{"+form+"},{%s}]", "front", url("front--new-sb"), `"host":"10.0.0.1","name":"ip","port":80,"protocol":"http","routeType":"host","target":"http://10.0.0.1:80"`,
			"Old", url("old--new-sb"), `"host":"route.hotrod.deploy","name":"route","port":8083,"protocol":"grpc","routeType":"host","target":"grpc://route.hotrod.deploy:8083"`+url("route--new-sb"))
		group := fmt.Sprintf(`[{"cluster":"demo","name":"front","target":"http://frontend.hotrod.svc:8080"%s}]`, url("front--new-rg"))
		for path, want := range map[string]string{"/sandboxes/new-sb": want, "/sandboxes": want, "/routegroups/new-rg": group, "/routegroups": group} {
			if got := w.accepts("GET", path, ""); !strings.Contains(got, `"endpoints":`+want+",") {
				t.Errorf("%v: %s: %s, want %s", tt.config, path, got, want)
			}
		}
		if got := w.accepts("GET", "/clusters/demo/", ""); strings.Contains(got, "clusterConfig") {
			t.Errorf("the settings are in %s", got)
		}
	}
	delete(w.previews, org)
	w.must(w.store.ReportCluster(w.ctx(), model.Cluster{Org: org, Name: "demo", Config: endpoints.Reported(&linkv1.Configuration{PreviewDomain: "demo.example.net"})}))
	if got := w.accepts("GET", "/sandboxes/new-sb", ""); strings.Contains(got, "https://") {
		t.Errorf("without a preview domain: %s", got)
	}
}

// accepts sends a request that is accepted, and returns the answer.
func (w *world) accepts(method, path, body string) string {
	w.Helper()
	got := w.send(method, orgPath+path, body)
	if got.status != http.StatusOK {
		w.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
	}
	return string(got.body)
}

// TestEndpointsOfEarlierReleasesCanBeWrittenAgain has a sandbox and a route group with names that are refused now.
func TestEndpointsOfEarlierReleasesCanBeWrittenAgain(t *testing.T) {
	w := newWorld(t)
	const named, more = `[{"name":"a--b","target":"http://a.b.svc"},{"name":"xn","target":"http://a.b.svc"}`, `,{"name":"web","target":"http://a.b.svc"}`
	sandbox := func(more string) string { return virtual(`,"defaultRouteGroup":{"endpoints":` + named + more + `]}`) }
	group := func(more string) string {
		return `{"cluster":"demo","match":{"label":{"key":"a","value":"b"}},"endpoints":` + named + more + `]}`
	}
	_, err := w.store.PutSandbox(w.ctx(), model.Sandbox{Org: org, Name: "old-sb", Cluster: "demo", RoutingKey: "old-sb", Spec: json.RawMessage(sandbox("")), CreatedAt: w.now, UpdatedAt: w.now}, w.event())
	w.must(err)
	_, err = w.store.PutRouteGroup(w.ctx(), model.RouteGroup{Org: org, Name: "old-rg", Cluster: "demo", RoutingKey: "old-rg", Spec: json.RawMessage(group("")), CreatedAt: w.now, UpdatedAt: w.now}, w.event())
	w.must(err)
	for path, spec := range map[string]func(string) string{"sandboxes/old-sb": sandbox, "routegroups/old-rg": group} {
		w.accepts("PUT", "/"+path, `{"spec":`+spec("")+`}`)
		w.accepts("PUT", "/"+path, `{"spec":`+spec(more)+`}`)
		again := strings.Replace(path, "old-", "new-", 1)
		if got := w.send("PUT", orgPath+"/"+again, `{"spec":`+spec("")+`}`); got.status != http.StatusBadRequest {
			t.Errorf("a new one: %d %s", got.status, got.body)
		}
	}
}
