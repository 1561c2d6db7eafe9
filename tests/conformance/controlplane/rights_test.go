package controlplane

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/protos"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/wait"
)

// variable matches a variable of a path.
var variable = regexp.MustCompile(`\{[^}]+\}`)

// defined returns the method and path of each operation of the definition, and its name.
func defined(t *testing.T) map[string]string {
	t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(protos.ControlPlaneOpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, methods := range document.Paths {
		for method, text := range methods {
			var op struct{ OperationID string }
			if method != "parameters" && json.Unmarshal(text, &op) == nil {
				out[strings.ToUpper(method)+" "+path] = op.OperationID
			}
		}
	}
	return out
}

// TestRights calls every operation with every kind of credential. testdata/rights.txt has whether the
// operation refuses it: 401, 403, or not.
func TestRights(t *testing.T) {
	w := newWorld(t)
	callers := []struct{ name, header, value string }{
		{"none", "Accept", "*/*"}, {"wrong", "Signadot-Api-Key", "no-such-key"}, {"a key as a token", "Signadot-Cluster-Token", adminKey}, {"another organisation", "Signadot-Api-Key", otherKey},
		{"cluster token", "Signadot-Cluster-Token", clusterToken}, {"service account", "Signadot-Api-Key", accountKey},
		{"member", "Authorization", "Bearer " + bearer}, {"admin", "Signadot-Api-Key", adminKey},
	}
	w.key = ""
	operations := defined(t)
	lines := ""
	for _, c := range callers {
		lines += c.name + "; "
	}
	lines += "\n"
	for _, request := range slices.Sorted(maps.Keys(operations)) {
		method, path, _ := strings.Cut(request, " ")
		path = "/api/v2" + variable.ReplaceAllString(strings.ReplaceAll(strings.ReplaceAll(path, "{orgName}", org), "{userId}", "u-1"), "no-such")
		line := fmt.Sprintf("%-28s", operations[request])
		for _, c := range callers {
			got := w.send(method, path, "", c.header, c.value)
			switch {
			case got.status == http.StatusUnauthorized || got.status == http.StatusForbidden:
				line += fmt.Sprintf("%5d", got.status)
			case got.status >= http.StatusInternalServerError && got.status != http.StatusNotImplemented:
				t.Errorf("%s by %s: %d %s", request, c.name, got.status, got.body)
			default:
				line += "    -"
			}
		}
		lines += line + "\n"
	}
	golden.Compare(t, "testdata/rights.txt", lines)
}

// Every operation that is not implemented answers 501, with the error object.
func TestOperationsWithoutAUseCase(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		orgPath + "/sandboxes/demo-sb/status/explain?mode=context", orgPath + "/jobs", orgPath + "/runnergroups/x", orgPath + "/artifacts/jobs/a/attempts/0",
		orgPath + "/tests", orgPath + "/tests/executions/", orgPath + "/plans", orgPath + "/plan-tags", orgPath + "/plan-actions", orgPath + "/plan-runnergroups", "/api/v2/meta/plans",
	} {
		if got := w.send("GET", path, ""); got.status != http.StatusNotImplemented || got.errorText(t) == "" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// Every write is in the audit trail, with its author and without secrets.
func TestWritesAreAudited(t *testing.T) {
	w := newWorld(t)
	w.send("PUT", orgPath+"/clusters/second/", "")
	w.send("POST", orgPath+"/clusters/second/tokens", "{}")
	w.send("PUT", orgPath+"/sandboxes/new-sb", `{"spec":`+virtual("")+`}`)
	w.send("PUT", orgPath+"/sandboxes/bad", `{"spec":{}}`)
	w.send("DELETE", orgPath+"/sandboxes/new-sb", "")
	w.send("POST", orgPath+"/secrets", `{"name":"s","value":"canary-of-a-secret"}`)
	got := w.send("GET", orgPath+"/events?principalId=u-1", "")
	var list struct {
		Events []struct {
			Type      string
			Principal struct{ Name string }
			Auth      struct{ Method model.Method }
		}
	}
	if err := json.Unmarshal(got.body, &list); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range list.Events {
		types = append(types, e.Type)
		if e.Principal.Name != "user@example.org" || e.Auth.Method != model.MethodAPIKey {
			t.Errorf("%+v", e)
		}
	}
	slices.Sort(types)
	if text := strings.Join(types, " "); text != "cluster.add clusterToken.create sandbox.apply sandbox.delete secret.create" {
		t.Errorf("the entries are %s", text)
	}
	if strings.Contains(string(got.body), "canary") {
		t.Error("a secret is in the audit trail")
	}
	if got := w.send("GET", orgPath+"/secrets", ""); strings.Contains(string(got.body), "canary") {
		t.Error("a secret is in a list")
	}
}

// A caller with many unfinished requests is refused more, and keeps no other caller from its requests.
func TestCallersAreLimited(t *testing.T) {
	w := newWorld(t)
	body, end := io.Pipe()
	var under sync.WaitGroup
	for range 64 {
		under.Go(func() {
			req, err := http.NewRequestWithContext(w.ctx(), "PUT", w.url+orgPath+"/sandboxes/new-sb", io.NopCloser(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Signadot-Api-Key", memberKey)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
			}
		})
	}
	w.key = memberKey
	wait.Eventually(t, 5*time.Minute, "a refusal", func() error {
		got := w.send("GET", "/api/v2/orgs/", "")
		if got.status == http.StatusTooManyRequests && got.errorText(t) != "" {
			return nil
		}
		return fmt.Errorf("%d %s", got.status, got.body)
	})
	w.key = adminKey
	if got := w.send("GET", "/api/v2/orgs/", ""); got.status != http.StatusOK {
		t.Errorf("another caller: %d %s", got.status, got.body)
	}
	if err := end.Close(); err != nil {
		t.Error(err)
	}
	under.Wait()
}
