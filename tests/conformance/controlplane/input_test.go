package controlplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v2 "switchyard.dev/protos/controlplane/v2"
)

const orgPath = "/api/v2/orgs/" + org

// virtual is the smallest specification of a sandbox, with more fields.
func virtual(more string) string {
	return `{"cluster":"demo","virtual":[{"name":"v","workload":{"kind":"Deployment","namespace":"hotrod","name":"route"}}]` + more + `}`
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	const sandbox, group, plugin = "PUT /sandboxes/new-sb", "PUT /routegroups/new-rg", "PUT /resource-plugins/new-rp"
	for _, tt := range []struct {
		request, body string
		status        int
		want          string
	}{
		{sandbox, ``, 400, "the body is empty"},
		{sandbox, `{`, 400, "the body is not JSON"},
		{sandbox, `[]`, 400, "the body must be a JSON object"},
		{sandbox, `{}`, 400, "spec.cluster is missing"},
		{sandbox, `{"spec":[]}`, 400, "spec must be an object"},
		{sandbox, `{"spec":` + virtual(`,"fork":[]`) + `}`, 400, `spec.fork is not a field; did you mean "forks"?`},
		{sandbox, `{"spec":` + virtual(`,"forks":[{"forkOf":{"kind":"Deployment","namespace":"a","name":"b"},"customizations":{"images":[{"images":"x"}]}}]`) + `}`, 400, "spec.forks[0].customizations.images[0].images is not a field"},
		{sandbox, `{"spec":` + virtual(`,"forks":[null]`) + `}`, 400, "spec.forks[0] is null"},
		{sandbox, `{"spec":` + virtual(`,"ttl":{"duration":"1h30m"}`) + `}`, 400, "spec.ttl.duration is"},
		{sandbox, `{"spec":` + virtual(`,"ttl":{}`) + `}`, 400, "spec.ttl.duration is"},
		{sandbox, `{"spec":` + virtual(`,"ttl":{"duration":2}`) + `}`, 400, "spec.ttl.duration must be text"},
		{sandbox, `{"spec":` + virtual(`,"endpoints":[{"name":"a","host":"b","port":"80","protocol":"http"}]`) + `}`, 400, "spec.endpoints[0].port must be a number"},
		{sandbox, `{"spec":` + virtual(`,"endpoints":[{"name":"a","host":"b","port":80.5,"protocol":"http"}]`) + `}`, 400, "spec.endpoints[0].port must be a number"},
		{sandbox, `{"spec":` + virtual(`,"endpoints":[{"name":"a--b","host":"b","port":80,"protocol":"http"}]`) + `}`, 400, `spec.endpoints[0].name is "a--b"; a name in the host of a preview`},
		{sandbox, `{"spec":` + virtual(`,"defaultRouteGroup":{"endpoints":[{"name":"xn","target":"http://a.b.svc"}]}`) + `}`, 400, `spec.defaultRouteGroup.endpoints[0].name is "xn"; hosts that begin with xn--`},
		{sandbox, `{"spec":` + virtual(`,"defaultRouteGroup":{"endpoints":[{"name":"a","target":"http://a.b.svc"},{"name":"A","target":"http://a.b.svc"}]}`) + `}`, 400, `spec.defaultRouteGroup.endpoints[1].name is "A", and its preview would have the same host as that of "a"`},
		{sandbox, `{"spec":{"cluster":"demo","forks":[{"forkOf":{"kind":"Deployment","namespace":"a","name":"b"},"endpoints":[{"name":"` + strings.Repeat("e", 56) + `","port":80,"protocol":"http"}]}]}}`, 400, "spec.forks[0].endpoints[0].name is"},
		{"PUT /sandboxes/new--sb", `{"spec":` + virtual(`,"defaultRouteGroup":{"endpoints":[{"name":"a","target":"http://a.b.svc"}]}`) + `}`, 400, `spec.defaultRouteGroup.endpoints[0].name is that of an endpoint of "new--sb"`},
		{group, `{"spec":{"match":{"label":{"key":"a","value":"b"}},"endpoints":[{"name":"a_b","target":"http://a.b.svc","cluster":"demo"}]}}`, 400, `spec.endpoints[0].name is "a_b"; a name in the host of a preview`},
		{sandbox, `{"spec":` + virtual(`,"labels":{"a":"\u0000"}`) + `}`, 400, "spec.labels.a has a NUL character"},
		{sandbox, `{"spec":` + virtual(`,"description":"`+strings.Repeat("x", 1<<20)+`"`) + `}`, 400, "the body has more than 1048576 bytes"},
		{"POST /secrets", `{"name":"x","value":"` + strings.Repeat("x", 64<<10) + `"}`, 400, "the body has more than 65536 bytes"},
		{sandbox, `{"spec":` + virtual(`,"description":"`+strings.Repeat("x", 1<<19)+`"`) + `}`, 400, "spec has"},
		{sandbox, `{"spec":` + virtual(`,"resources":[{"name":"db","plugin":"no-such","params":{"dbname":"x"}}]`) + `}`, 400, "spec.resources[0].plugin"},
		{sandbox, `{"spec":` + virtual(``) + `} {}`, 400, "more than one JSON value"},
		{"PUT /sandboxes/New_SB", `{"spec":` + virtual(``) + `}`, 400, `name is "New_SB"`},
		{sandbox, `{"spec":{"cluster":"no-such","virtual":[]}}`, 404, `cluster "no-such" not found`},
		{"DELETE /sandboxes/demo-sb?force=maybe", ``, 400, "force must be true or false"},
		{group, `{"spec":{"match":{"label":{"key":"a"}}}}`, 400, "spec.match.label.value is missing"},
		{group, `{"spec":{"cluster":"no-such","match":{"label":{"key":"a","value":"b"}}}}`, 404, `spec.cluster: cluster "no-such": not found`},
		{group, `{"spec":{"match":{"label":{"key":"a","value":"b"}},"endpoints":[{"name":"e","target":"http://a:80","cluster":"no-such"}]}}`, 404, "spec.endpoints[0].cluster"},
		{group, `{"spec":{"match":{"label":{"key":"a","value":"b"},"any":[]}}}`, 400, "spec.match must have exactly one of"},
		{plugin, `{"name":"another","spec":{}}`, 400, `name is "another", and the path names "new-rp"`},
		{plugin, `{"name":"new-rp@latest","spec":{}}`, 400, "name is"},
		{plugin, `{"name":"new-rp","spec":{"create":[{"name":"a","script":"true"}]}}`, 400, "spec."},
		{"DELETE /resource-plugins/demo-rp?version=x", ``, 400, "version is"},
		{"GET /resource-plugins?version=1.0.0", ``, 400, "version is"},
		{"POST /secrets", `{"name":"x"}`, 400, "value is missing"},
		{"POST /secrets", `{"name":"a b","value":"x"}`, 400, "name"},
		{"POST /service-accounts", `{"name":"x","role":"owner"}`, 400, `role is "owner"; use admin or member`},
		{"POST /service-accounts", `{"name":"x","description":"` + strings.Repeat("x", 4097) + `"}`, 400, "description has 4097 bytes; it can have 4096"},
		{"POST /service-accounts", `{"name":"a b"}`, 400, "the name of the service account is not valid"},
		{"POST /users/u-1/api-keys", `{"description":"` + strings.Repeat("x", 4097) + `"}`, 400, "description has"},
		{"POST /secrets", `{"name":"x","value":"` + strings.Repeat("x", 48<<10+1) + `"}`, 400, "value has 49153 bytes; it can have 49152"},
		{"PUT /secrets/demo-secret", `{"value":"x","description":"` + strings.Repeat("x", 4097) + `"}`, 400, "description has"},
		{"POST /devboxes/", `{"metadata":{"name":"x","machine-id":"y","z":"` + strings.Repeat("x", 4096) + `"}}`, 400, "metadata has"},
		{"GET /events?principalKind=person", ``, 400, `principalKind is "person"; use one of user serviceAccount cluster system`},
		{"GET /events?authMethod=password", ``, 400, `authMethod is "password"; use one of apiKey bearer clusterToken internal`},
		{"POST /service-accounts", `{"name":"ci"}`, 409, "service account already exists"},
		{"POST /service-accounts/no-such/api-keys", `{}`, 404, "service account not found"},
		{"POST /users/no-such/api-keys", `{}`, 404, "user not found"},
		{"DELETE /users/u-1/api-keys/no-such", ``, 404, "API key not found"},
		{"POST /devboxes/", `{"metadata":{"name":"x"}}`, 400, "metadata.machine-id is missing"},
		{"PUT /clusters/a%20b/", ``, 400, "name"},
		{"GET /clusters/no-such/", ``, 404, `cluster "no-such" not found`},
		{"GET /clusters/no-such/tokens/", ``, 404, `cluster "no-such" not found`},
		{"POST /clusters/no-such/tokens", `{}`, 404, `cluster "no-such" not found`},
		{"DELETE /clusters/demo/", ``, 409, "in use by "},
		{"GET /events?startTime=noon", ``, 400, "startTime is"},
		{"GET /events?principalId=%00", ``, 400, "is not UTF-8 text"},
		{"GET /events?type=%ff", ``, 400, "is not UTF-8 text"},
		{"GET /events?limit=0", ``, 400, "limit is"},
		{"PATCH /sandboxes/demo-sb", ``, 405, "use GET or PUT or DELETE"},
		{"GET /clusters", ``, 404, "no such path; use /api/v2/orgs/example-org/clusters/"},
		{"GET /sandboxes/", ``, 404, "no such path; use /api/v2/orgs/example-org/sandboxes"},
		{"GET /none", ``, 404, "no such path"},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		got := w.send(method, orgPath+path, tt.body)
		if text := got.errorText(t); got.status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s %.200s: %d %q, want %d %q", tt.request, tt.body, got.status, text, tt.status, tt.want)
		}
	}
}

// A client can send back an answer: fields beside the specification are ignored, and null is unset.
func TestAnswersAreValidRequests(t *testing.T) {
	w := newWorld(t)
	const path = orgPath + "/sandboxes/new-sb"
	body := `{"name":"another","status":null,"x":{"y":1},"endpoints":null,"spec":` +
		virtual(`,"forks":null,"ttl":{"duration":"2d","offsetFrom":null},"connection":null,"labels":{"team":"demo","old":null},"resources":[{"name":"db","plugin":"demo-rp","params":{"dbname":"x"}}],"defaultRouteGroup":{"endpoints":[{"name":"front","target":"http://frontend.hotrod.svc:8080"}]}`) + `}`
	first := w.send("PUT", path, body)
	var s v2.Sandbox
	if err := json.Unmarshal(first.body, &s); err != nil || first.status != http.StatusOK {
		t.Fatalf("%d %s", first.status, first.body)
	}
	if s.Name != "new-sb" || len(s.RoutingKey) != 13 || *s.Spec.TTL.OffsetFrom != "createdAt" || len(s.Spec.Labels) != 1 || s.Status.Ready || len(s.Endpoints) != 1 || *s.Endpoints[0].Host != "frontend.hotrod.svc" || *s.Endpoints[0].Port != 8080 {
		t.Errorf("the answer is %s", first.body)
	}
	if want := w.now.Add(48 * time.Hour).Format(time.RFC3339); *s.Status.ScheduledDeleteTime != want {
		t.Errorf("it ends at %s, want %s", *s.Status.ScheduledDeleteTime, want)
	}
	w.now = w.now.Add(time.Minute)
	second := w.send("PUT", path, string(first.body))
	var again v2.Sandbox
	if err := json.Unmarshal(second.body, &again); err != nil || second.status != http.StatusOK || again.UpdatedAt == s.UpdatedAt || again.RoutingKey != s.RoutingKey || again.CreatedAt != s.CreatedAt {
		t.Errorf("%d %s", second.status, second.body)
	}
	again.UpdatedAt = s.UpdatedAt
	if one, two := fmt.Sprintf("%s", jsonOf(t, s)), fmt.Sprintf("%s", jsonOf(t, again)); one != two {
		t.Errorf("it has changed from %s to %s", one, two)
	}
}

func jsonOf(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A resource without a version keeps the version of its plugin when a newer one is published.
func TestAResourceKeepsTheVersionOfItsPlugin(t *testing.T) {
	w := newWorld(t)
	const path = orgPath + "/sandboxes/new-sb"
	body := `{"spec":` + virtual(`,"resources":[{"name":"db","plugin":"demo-rp","params":{"dbname":"x"}}]`) + `}`
	for _, publish := range []string{"", "demo-rp@2.0.0"} {
		if publish != "" {
			w.plugin(publish)
		}
		if got := w.send("PUT", path, body); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		got := w.send("DELETE", orgPath+"/resource-plugins/demo-rp?version=1.1.0", "")
		if text := got.errorText(t); got.status != http.StatusBadRequest || !strings.Contains(text, "in use") || !strings.Contains(text, "new-sb") || !strings.Contains(text, "demo-rp@1.1.0") {
			t.Errorf("%d %s", got.status, text)
		}
	}
	if got := w.send("DELETE", orgPath+"/resource-plugins/demo-rp", ""); got.status != http.StatusOK {
		t.Errorf("the version that no sandbox uses: %d %s", got.status, got.body)
	}
}

// An update of a service account changes the fields in its body only.
func TestAnUpdateKeepsOtherFields(t *testing.T) {
	w := newWorld(t)
	w.send("POST", orgPath+"/service-accounts", `{"name":"bot","role":"admin","description":"builds"}`)
	for _, tt := range [][3]string{{`{}`, "admin", "builds"}, {`{"description":"tests","role":null}`, "admin", "tests"}, {`{"role":"member"}`, "member", "tests"}} {
		got := w.send("PUT", orgPath+"/service-accounts/bot", tt[0])
		var a struct{ Role, Description string }
		if err := json.Unmarshal(got.body, &a); err != nil || got.status != http.StatusOK || a.Role != tt[1] || a.Description != tt[2] {
			t.Errorf("%s: %d %s", tt[0], got.status, got.body)
		}
		if read := w.send("GET", orgPath+"/service-accounts/bot", ""); !bytes.Equal(read.body, got.body) {
			t.Errorf("%s: it is %s", tt[0], read.body)
		}
	}
	if got := w.send("DELETE", orgPath+"/service-accounts/bot", ""); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.send("PUT", orgPath+"/service-accounts/bot", `{}`); got.status != http.StatusNotFound {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestASandboxThatIsBeingDeleted(t *testing.T) {
	w := newWorld(t)
	const path = orgPath + "/sandboxes/demo-sb"
	w.send("DELETE", path+"?force=false", "")
	var s v2.Sandbox
	if err := json.Unmarshal(w.send("GET", path, "").body, &s); err != nil || s.Status.Ready || *s.Status.Reason != "Terminating" {
		t.Errorf("%+v, %v", s.Status, err)
	}
	put := w.send("PUT", path, `{"spec":`+virtual("")+`}`)
	if text := put.errorText(t); put.status != http.StatusConflict || !strings.Contains(text, "is being deleted") {
		t.Errorf("%d %s", put.status, text)
	}
	w.removed("demo-sb")
	put = w.send("PUT", path, `{"spec":`+virtual("")+`}`)
	var again v2.Sandbox
	if err := json.Unmarshal(put.body, &again); err != nil || put.status != http.StatusOK || again.RoutingKey == s.RoutingKey {
		t.Errorf("%d %s; the key was %s", put.status, put.body, s.RoutingKey)
	}
}

// A route group has the sandboxes that match now, and none that is being deleted: clients read each of
// them.
func TestARouteGroupNamesTheSandboxesThatExist(t *testing.T) {
	w := newWorld(t)
	matched := func() string {
		var g v2.RouteGroup
		if err := json.Unmarshal(w.send("GET", orgPath+"/routegroups/demo-rg", "").body, &g); err != nil {
			t.Fatal(err)
		}
		return strings.Join(g.Status.MatchedSandboxes, " ")
	}
	if got := matched(); got != "alex-sb demo-sb" {
		t.Errorf("matched: %s", got)
	}
	w.send("PUT", orgPath+"/sandboxes/alex-sb", `{"spec":`+virtual(`,"labels":{"team":"other"}`)+`}`)
	if got := matched(); got != "demo-sb" {
		t.Errorf("matched after a change of labels: %s", got)
	}
	w.send("DELETE", orgPath+"/sandboxes/demo-sb", "")
	if got := matched(); got != "" {
		t.Errorf("matched after a deletion: %s", got)
	}
}

func TestACredentialIsShownOnce(t *testing.T) {
	w := newWorld(t)
	for _, create := range []string{"/clusters/demo/tokens", "/users/u-1/api-keys", "/service-accounts/ci/api-keys"} {
		var made struct{ ID, Token, MaskedValue string }
		if err := json.Unmarshal(w.send("POST", orgPath+create, `{}`).body, &made); err != nil || len(made.Token) < 43 || !strings.HasPrefix(made.Token, made.MaskedValue) {
			t.Fatalf("%s: %+v, %v", create, made, err)
		}
		list := create
		if strings.HasSuffix(list, "/tokens") {
			list += "/"
			if got := w.send("GET", orgPath+list+made.ID, ""); got.status != http.StatusOK || strings.Contains(string(got.body), made.Token) {
				t.Errorf("%s: %d %s", list, got.status, got.body)
			}
		}
		if got := w.send("GET", orgPath+list, ""); !strings.Contains(string(got.body), made.ID) || strings.Contains(string(got.body), made.Token) {
			t.Errorf("%s: %s", list, got.body)
		}
		header := "Signadot-Api-Key"
		if strings.HasSuffix(create, "/tokens") {
			header = "Signadot-Cluster-Token"
		}
		w.key = ""
		if got := w.send("GET", "/api/v2/orgs/", "", header, made.Token); got.status != http.StatusOK {
			t.Errorf("%s: the credential is refused: %s", create, got.body)
		}
		w.key = adminKey
		if got := w.send("DELETE", orgPath+create+"/"+made.ID, "{}"); got.status != http.StatusOK {
			t.Errorf("%s: %s", create, got.body)
		}
		w.key = ""
		if got := w.send("GET", "/api/v2/orgs/", "", header, made.Token); got.status != http.StatusUnauthorized {
			t.Errorf("%s: the deleted credential: %d", create, got.status)
		}
		w.key = adminKey
	}
}
