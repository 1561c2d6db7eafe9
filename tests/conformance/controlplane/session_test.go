package controlplane

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/workflows/spec"
)

// exchange is a recorded request, with its answer.
type exchange struct {
	Case, Method, Path string
	Query              url.Values
	Body               json.RawMessage
	Status             int
	Error              string
	// Text is what the client prints of an output stream, or writes of a file.
	Text *string
}

// recorded returns the exchanges of a file.
func recorded(t *testing.T, file string) (out []exchange) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var e exchange
		if err := d.Decode(&e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// before has the differences of the world of a case.
var before = map[string]func(*world){
	"auth-login-apikey-401":          badKey,
	"sandbox-apply-401":              badKey,
	"job-submit-401":                 badKey,
	"job-submit-400":                 func(w *world) { w.withoutRunners() },
	"sandbox-delete-401":             badKey,
	"routegroup-apply-401":           badKey,
	"resourceplugin-apply-401":       badKey,
	"sandbox-apply-403":              func(w *world) { w.key = otherKey },
	"sandbox-apply-409":              func(w *world) { w.free("demo-sb"); w.group("demo-sb") },
	"routegroup-apply-409":           func(w *world) { w.free("demo-rg"); w.sandbox("demo-rg", "x7w2xq9m4zt1c", nil) },
	"cluster-add-token-400":          func(w *world) { w.many = true },
	"sdk-cluster-remove":             func(w *world) { w.free("demo-sb"); w.free("alex-sb"); w.free("demo-rg"); w.withoutRunners() },
	"secret-delete-404":              func(w *world) { w.must(w.store.DeleteSecret(w.ctx(), org, "demo-secret", w.event())) },
	"resourceplugin-apply-again-409": func(w *world) { w.plugin("new-rp@0.0.0") },
	"resourceplugin-apply-version": func(w *world) {
		w.must(w.store.DeletePlugin(w.ctx(), org, spec.PluginName{Bare: "new-rp", Version: "1.0.0"}, w.event()))
	},
	"resourceplugin-delete-in-use": func(w *world) {
		w.sandbox("other-sb", "o7w2xq9m4zt1c", map[string]spec.PluginName{"db": {Bare: "demo-rp", Version: "1.1.0"}})
	},
	"artifact-download-empty": func(w *world) { w.left("", "") },
	"artifact-download-500":   func(w *world) { w.lost() },
	"logs":                    func(w *world) { w.left("hello\nsecond line\nthird line\n", "") },
	"logs-stderr":             func(w *world) { w.left("", "a warning\n") },
	"logs-tail":               func(w *world) { w.left("hello\nsecond line\nthird line\n", "") },
	"logs-without-newline":    func(w *world) { w.left("no newline here", "") },
	"logs-empty":              func(w *world) { w.left("", "") },
	"secret-create-409":       func(w *world) { w.secret("new-secret") },
	"devbox-register-200": func(w *world) {
		w.send("POST", "/api/v2/orgs/"+org+"/devboxes/", `{"metadata":{"name":"dev-host","machine-id":"<machine-id>"}}`)
	},
	"sdk-devbox-renew":     func(w *world) { w.claim("test", "ses-1") },
	"sdk-devbox-claim-409": func(w *world) { w.claim("another-user", "ses-1") },
}

// unlike are cases with another answer here, and why.
var unlike = map[string]string{
	"auth-login-apikey-403":       "every credential may read its own organisation",
	"auth-login-device":           "TestALogin has it, with device codes of this server",
	"auth-login-device-denied":    "TestALogin",
	"auth-login-device-429":       "limits are those of an address: TestCallersAreLimited",
	"auth-login-device-500":       "a fault of the server",
	"cluster-add-odd-name":        "a cluster has a name of letters, digits, -, ., _, @ and +: 400",
	"cluster-devmesh":             "TestSidecarsOfACluster",
	"cluster-devmesh-filter":      "TestSidecarsOfACluster",
	"sandbox-apply-400":           "TestBadInput",
	"sandbox-apply-stdin":         "a sandbox without a workload, a resource or an endpoint is refused, as with a kubeconfig",
	"sandbox-apply-404":           "an organisation that the credential is not of: 403",
	"sandbox-apply-422":           "bad input is 400",
	"sandbox-apply-429":           "TestCallersAreLimited",
	"sandbox-apply-500":           "a fault of the server",
	"sandbox-apply-502":           "a fault of a gateway",
	"sandbox-delete-400":          "TestBadInput",
	"sandbox-delete-409":          "a sandbox can always be deleted",
	"sandbox-delete-502":          "a fault of a gateway",
	"routegroup-apply-400":        "TestBadInput",
	"routegroup-apply-502":        "a fault of a gateway",
	"resourceplugin-apply-400":    "TestBadInput",
	"resourceplugin-apply-502":    "a fault of a gateway",
	"resourceplugin-versions-404": "a plugin without versions has an empty list, as in case resourceplugin-versions-none",
	"secret-create-exists-400":    "409, as in case secret-create-409",
	"devbox-register-429":         "TestCallersAreLimited",
	"sdk-token-refresh":           "TestALogin",
	"jobrunnergroup-apply-400":    "TestBadInput",
	"job-submit-404":              "an organisation that the credential is not of: 403",
	"job-submit-409":              "names are chosen here, so none is taken",
	"job-submit-502":              "a fault of a gateway",
	"job-submit-wait-poll-502":    "a fault of a gateway",
	"job-get-attempt-id":          "the only attempt is 0",
	"artifact-download-206":       "its request has no range: TestDownloads has one",
	"logs-error-event":            "a fault of the server",
	"logs-restart":                "TestAnotherExecutionRestartsTheStream of package jobs",
}

// published are the texts of errors that a client compares.
var published = []string{"can't get sandbox: not found", "unable to fetch routegroup: not found", "cluster already exists", "in use"}

func badKey(w *world) { w.key = "no-such-key" }

// TestTheRecordedSession replays the requests of a published client.
func TestTheRecordedSession(t *testing.T) {
	cases := map[string][]exchange{}
	var order []string
	for _, e := range recorded(t, "session.jsonl") {
		if cases[e.Case] == nil {
			order = append(order, e.Case)
		}
		cases[e.Case] = append(cases[e.Case], e)
	}
	for _, name := range order {
		t.Run(name, func(t *testing.T) {
			if why := unlike[name]; why != "" {
				t.Skip(why)
			}
			w := newWorld(t)
			if first := before[name]; first != nil {
				first(w)
			}
			for _, e := range cases[name] {
				w.replay(e)
			}
		})
	}
}

// replay sends a recorded request, and compares its answer with the recorded one.
func (w *world) replay(e exchange) {
	w.Helper()
	path := e.Path
	if e.Query != nil {
		path += "?" + e.Query.Encode()
	}
	if parts := strings.Split(e.Path, "/"); e.Method == "GET" && e.Status == 404 {
		w.removed(parts[len(parts)-1])
	}
	if w.many && strings.HasSuffix(e.Path, "/tokens") {
		for range 16 {
			w.send(e.Method, path, "{}")
		}
	}
	got := w.send(e.Method, path, string(e.Body))
	if e.Text != nil {
		w.raw(e, got)
		return
	}
	if got.status != e.Status || got.kind != "application/json" {
		w.Fatalf("%s %s: %d %s, want %d: %s", e.Method, path, got.status, got.kind, e.Status, got.body)
	}
	if e.Status >= 400 {
		text := got.errorText(w.T)
		for _, literal := range published {
			if strings.Contains(e.Error, literal) && !strings.Contains(text, literal) {
				w.Errorf("%s %s: %q, want %q", e.Method, path, text, e.Error)
			}
		}
		return
	}
	if err := sound(operationOf(e.Method, e.Path), got.body); err != nil {
		w.Errorf("%s %s: %v: %s", e.Method, path, err, got.body)
	}
	w.compiles()
}

// raw compares an answer that is no JSON.
func (w *world) raw(e exchange, got answer) {
	w.Helper()
	text := string(got.body)
	if operationOf(e.Method, e.Path) == "streamJobLogs" {
		a := newAttached(w)
		events(strings.NewReader(text), func(name, data string) { a.event("stdout", name, data) })
		if text = a.printed["stdout"]; got.kind != "text/event-stream" || !a.ended["stdout"] {
			w.Errorf("%s: %s without an end: %s", e.Path, got.kind, got.body)
		}
	}
	if got.status != e.Status || strings.TrimSpace(text) != strings.TrimSpace(*e.Text) {
		w.Errorf("%s %s %v: %d %q, want %d %q", e.Method, e.Path, e.Query, got.status, text, e.Status, *e.Text)
	}
}

// compiles checks that all sandboxes and route groups have an object.
func (w *world) compiles() {
	w.Helper()
	sandboxes, err := w.store.Sandboxes(w.ctx(), org)
	w.must(err)
	groups, err := w.store.RouteGroups(w.ctx(), org)
	w.must(err)
	plugins, err := w.store.Plugins(w.ctx(), org)
	w.must(err)
	for _, row := range sandboxes {
		if _, err := desired.Sandbox(row, plugins); err != nil {
			w.Errorf("sandbox %s: %v", row.Name, err)
		}
	}
	for _, row := range groups {
		if _, err := desired.Group(row, "demo", sandboxes); err != nil {
			w.Errorf("route group %s: %v", row.Name, err)
		}
	}
}

// free removes a sandbox or a route group.
func (w *world) free(name string) {
	w.Helper()
	if w.store.DeleteSandbox(w.ctx(), org, name, false, w.now, w.event()) != nil {
		w.must(w.store.DeleteRouteGroup(w.ctx(), org, name, w.now, w.event()))
	}
	w.removed(name)
}

func (w *world) group(name string) {
	w.Helper()
	_, err := w.store.PutRouteGroup(w.ctx(), model.RouteGroup{Org: org, Name: name, Cluster: "demo", RoutingKey: "g7w2xq9m4zt1c", Spec: json.RawMessage(`{}`), CreatedAt: w.now, UpdatedAt: w.now}, w.event())
	w.must(err)
}

func (w *world) secret(name string) {
	w.Helper()
	w.must(w.store.CreateSecret(w.ctx(), model.Secret{Org: org, Name: name, Value: "canary-value", CreatedAt: w.now, UpdatedAt: w.now}, w.event()))
}

// withoutRunners removes the runner groups.
func (w *world) withoutRunners() {
	w.Helper()
	in := jobstore.Store{Store: w.store}
	for _, name := range []string{"demo-jrg", "new-jrg"} {
		w.must(in.DeleteGroup(w.ctx(), org, name, w.now, w.event()))
		g, err := in.Group(w.ctx(), org, name)
		w.must(err)
		w.must(in.FinishGroup(w.ctx(), g, w.event()))
	}
}

// claim begins a session of devbox dbx-1 for a user.
func (w *world) claim(user, session string) {
	w.Helper()
	ev := w.by(model.Principal{Kind: model.KindUser, ID: user})
	w.must(w.store.ClaimDevbox(w.ctx(), org, "dbx-1", model.DevboxSession{ID: session, CreatedAt: w.now, RenewedAt: w.now, ValidUntil: w.now.Add(sessionFor)}, ev))
}

// TestAnswersThatCrashAClient shows that none of the recorded answers that crash a client is one of this
// server: each is unsound, or of an operation that is not served. After a write the object is there at
// once, so no client polls errors only.
func TestAnswersThatCrashAClient(t *testing.T) {
	w := newWorld(t)
	all := recorded(t, "crashes.jsonl")
	if len(all) != 41 {
		t.Fatalf("there are %d", len(all))
	}
	for _, e := range all {
		operation := operationOf(e.Method, e.Path)
		switch {
		case strings.HasSuffix(e.Case, "set-label-single-file"), strings.HasSuffix(e.Case, "stdin-set-label"): // a fault of the client alone
		case operation == "":
			if got := w.send(e.Method, e.Path, ""); got.status != 501 {
				t.Errorf("%s: %s %s is %d, not 501", e.Case, e.Method, e.Path, got.status)
			}
		case e.Status == 200:
			var text string
			if json.Unmarshal(e.Body, &text) == nil {
				e.Body = json.RawMessage(text)
			}
			if err := sound(operation, e.Body); err == nil {
				t.Errorf("%s: the answer is sound: %s", e.Case, e.Body)
			}
		default:
			const path, body = "/api/v2/orgs/" + org + "/sandboxes/new-sb", `{"spec":{"cluster":"demo","virtual":[{"name":"v","workload":{"kind":"Deployment","namespace":"hotrod","name":"route"}}]}}`
			put, get := w.send("PUT", path, body), w.send("GET", path, "")
			if put.status != 200 || get.status != 200 || !bytes.Equal(put.body, get.body) {
				t.Errorf("%s: PUT %d %s, GET %d %s", e.Case, put.status, put.body, get.status, get.body)
			}
		}
	}
}
