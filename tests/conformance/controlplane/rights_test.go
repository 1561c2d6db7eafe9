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

	"github.com/google/go-cmp/cmp"

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

// A member has access to its own API keys only, and to none once it is deleted.
func TestAMemberHasItsOwnKeys(t *testing.T) {
	w := newWorld(t)
	w.key = ""
	for _, credential := range [][2]string{{"Signadot-Api-Key", memberKey}, {"Authorization", "Bearer " + bearer}} {
		for path, want := range map[string]int{"/users/u-2/api-keys": http.StatusOK, "/users/u-1/api-keys": http.StatusForbidden, "/users/u-3/api-keys": http.StatusForbidden, "/service-accounts/ci/api-keys": http.StatusForbidden} {
			for _, method := range []string{"GET", "POST"} {
				if got := w.send(method, orgPath+path, "{}", credential[0], credential[1]); got.status != want {
					t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
				}
			}
		}
		if got := w.send("DELETE", orgPath+"/users/u-2/api-keys/of-u-1", "", credential[0], credential[1]); got.status != http.StatusNotFound {
			t.Errorf("a key of another user below its own path: %d %s", got.status, got.body)
		}
	}
	w.must(w.store.DeleteUser(w.ctx(), org, "u-2", w.event()))
	for _, credential := range [][2]string{{"Signadot-Api-Key", memberKey}, {"Authorization", "Bearer " + bearer}} {
		if got := w.send("GET", "/api/v2/orgs/", "", credential[0], credential[1]); got.status != http.StatusUnauthorized {
			t.Errorf("%s of a deleted user: %d %s", credential[0], got.status, got.body)
		}
	}
}

// Every operation that is not implemented answers 501, with the error object.
func TestOperationsWithoutAUseCase(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		orgPath + "/sandboxes/demo-sb/status/explain?mode=context", orgPath + "/artifacts/jobs/a/attempts/0/objects/upload",
		orgPath + "/plans", orgPath + "/plan-tags", orgPath + "/plan-actions", orgPath + "/plan-runnergroups", "/api/v2/meta/plans",
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
	w.send("PUT", orgPath+"/sandboxes/new-sb", `{"spec":`+virtual(`,"description":"canary-of-a-value"`)+`}`)
	w.send("PUT", orgPath+"/sandboxes/bad", `{"spec":{}}`)
	w.send("DELETE", orgPath+"/sandboxes/new-sb", "")
	w.send("POST", orgPath+"/secrets", `{"name":"s","value":"canary-of-a-secret"}`)
	got := w.send("GET", orgPath+"/events?principalId=u-1", "")
	var list struct {
		Events []struct {
			Type      string
			Principal struct{ Name string }
			Auth      struct{ Method model.Method }
			Data      struct {
				Name, SHA256 string
				Generation   int64
			}
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
		if d := e.Data; e.Type == "sandbox.apply" && (d.Name != "new-sb" || len(d.SHA256) != 64 || d.Generation == 0) {
			t.Errorf("the entry of a specification is %+v", d)
		}
	}
	slices.Sort(types)
	if text := strings.Join(types, " "); text != "cluster.add clusterToken.create sandbox.apply sandbox.delete secret.create" {
		t.Errorf("the entries are %s", text)
	}
	if strings.Contains(string(got.body), "canary") {
		t.Error("a secret or the value of a specification is in the audit trail")
	}
	if got := w.send("GET", orgPath+"/secrets", ""); strings.Contains(string(got.body), "canary") {
		t.Error("a secret is in a list")
	}
}

// TestAnotherOrganisation calls every operation for another organisation, with the names of objects of the
// first one: it reads none of them, and changes none.
func TestAnotherOrganisation(t *testing.T) {
	w := newWorld(t)
	lists := []string{"clusters/", "clusters/demo/tokens/", "sandboxes", "routegroups", "resource-plugins?version=all", "devboxes/?all=true", "runnergroups", "jobs", "tests", "tests/executions/", "captures", "secrets", "service-accounts", "users/u-1/api-keys", "service-accounts/ci/api-keys"}
	state := func() (all string) {
		for _, list := range lists {
			got := w.send("GET", orgPath+"/"+list, "")
			if got.status != http.StatusOK || len(got.body) < len(`{"apiKeys":[]}`) {
				t.Errorf("%s: %d %s", list, got.status, got.body)
			}
			all += list + " " + string(got.body) + "\n"
		}
		value, err := w.store.SecretValue(w.ctx(), org, "demo-secret")
		w.must(err)
		return all + value
	}
	before := state()
	names := strings.NewReplacer("{orgName}", "other-org", "{userId}", "u-1", "{serviceAccountName}", "ci", "{clusterName}", "demo", "{tokenId}", "tok-1", "{apiKeyId}", "of-u-1",
		"{sandboxName}", "demo-sb", "{routegroupName}", "demo-rg", "{pluginName}", "demo-rp", "{devboxId}", "dbx-1", "{devboxSessionId}", "ses-1", "{secretName}", "demo-secret",
		"{runnergroupName}", "demo-jrg", "{jobName}", "demo-job-1", "{jobAttempt}", "0",
		"{testName}", "demo-test", "{executionID}", "tx-1", "{captureName}", "demo-capture")
	bodies := map[string]string{
		"applySandbox": `{"spec":` + virtual("") + `}`, "applyRouteGroup": `{"spec":{"cluster":"demo","match":{"label":{"key":"team","value":"demo"}}}}`,
		"updateSecret": `{"value":"taken"}`, "updateServiceAccount": `{"role":"admin"}`, "createUserKey": `{}`, "createServiceAccountKey": `{}`, "createClusterToken": `{}`,
		"applyRunnerGroup": `{"spec":{"cluster":"demo","image":"i"}}`, "submitJob": `{"spec":{"runnerGroup":"demo-jrg","script":"#!/bin/sh\n"}}`,
		"createCapture": `{"spec":{"sandbox":"demo-sb"}}`, "runHostedTest": `{"spec":{"executionContext":{"cluster":"demo"}}}`,
		"runTest": `{"spec":{"external":{"testName":"t","script":"x = 1"},"executionContext":{"cluster":"demo"}}}`,
	}
	// creates are the operations that create an object, which they may in their own organisation.
	creates := []string{"createServiceAccount", "createSecret", "addCluster", "registerDevbox", "applyResourcePlugin", "applyTest"}
	w.claim("u-2", "ses-1")
	w.key = otherKey
	operations, read := defined(t), 0
	for _, request := range slices.Sorted(maps.Keys(operations)) {
		name := operations[request]
		method, path, _ := strings.Cut(request, " ")
		if !strings.Contains(path, "{orgName}") || slices.Contains(creates, name) {
			continue
		}
		read++
		got := w.send(method, "/api/v2"+names.Replace(path), bodies[name])
		empty := method == "GET" && got.status == http.StatusOK && slices.Contains([]string{"[]", `{"apiKeys":[]}`}, string(got.body))
		if name == "submitJob" { // it names the group in its body
			empty = got.status == http.StatusBadRequest && strings.Contains(string(got.body), "not found")
		}
		if name == "listEvents" {
			empty = got.status == http.StatusOK && !strings.Contains(string(got.body), "demo")
		}
		if got.status != http.StatusNotFound && !empty {
			t.Errorf("%s: %d %s", request, got.status, got.body)
		}
	}
	if read < 40 {
		t.Errorf("%d operations were called", read)
	}
	w.key = adminKey
	w.must(w.store.ReleaseDevbox(w.ctx(), org, "dbx-1", w.by(model.Principal{Kind: model.KindUser, ID: "u-2"})))
	if diff := cmp.Diff(before, state()); diff != "" {
		t.Errorf("the first organisation has changed (-before +after):\n%s", diff)
	}
}

// A service account has no access to the devboxes of a user of its name, and no principal deletes a devbox that
// another one has claimed.
func TestDevboxesOfOthers(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.CreateServiceAccount(w.ctx(), model.ServiceAccount{Org: org, Name: "u-2", Role: model.RoleMember, CreatedAt: w.now, UpdatedAt: w.now}, w.event()))
	w.must(w.store.CreateAPIKey(w.ctx(), model.APIKey{Org: org, ID: "of-bot", Owner: model.Principal{Kind: model.KindServiceAccount, ID: "u-2"}, Digest: model.DigestOf("bot-key"), CreatedAt: w.now}, w.event()))
	w.key = ""
	var d struct{ ID string }
	registered := w.send("POST", orgPath+"/devboxes/", `{"metadata":{"name":"laptop","machine-id":"m"},"claim":true}`, "Authorization", "Bearer "+bearer)
	if err := json.Unmarshal(registered.body, &d); err != nil || d.ID == "" {
		t.Fatalf("%d %s", registered.status, registered.body)
	}
	for _, path := range []string{"/devboxes/" + d.ID, "/devboxes/" + d.ID + "/claim"} {
		if got := w.send("GET", orgPath+path, "", "Signadot-Api-Key", "bot-key"); got.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := w.send("GET", orgPath+"/devboxes/", "", "Signadot-Api-Key", "bot-key"); strings.Contains(string(got.body), d.ID) {
		t.Errorf("the list of another principal: %s", got.body)
	}
	w.claim("another-user", "ses-1")
	w.key = memberKey
	if got := w.send("DELETE", orgPath+"/devboxes/dbx-1", ""); got.status != http.StatusConflict || !strings.Contains(got.errorText(t), "claimed by another session") {
		t.Errorf("a claimed devbox: %d %s", got.status, got.body)
	}
	w.now = w.now.Add(sessionFor)
	if got := w.send("DELETE", orgPath+"/devboxes/dbx-1", ""); got.status != http.StatusOK {
		t.Errorf("after its session: %d %s", got.status, got.body)
	}
}

// All clients without a credential together have a limit, and keep no user from its requests.
func TestAllClientsAreLimited(t *testing.T) {
	w := newWorld(t)
	body, end := io.Pipe()
	var under sync.WaitGroup
	client := http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	defer under.Wait()
	defer func() { _ = end.Close() }() // it never fails
	begin := func() {
		under.Go(func() {
			req, err := http.NewRequestWithContext(w.ctx(), "POST", w.url+"/api/v2/auth/device/token/refresh", io.NopCloser(body))
			if err != nil {
				t.Error(err)
				return
			}
			if res, err := client.Do(req); err == nil {
				res.Body.Close()
			}
		})
	}
	for range 256 {
		begin()
	}
	wait.Eventually(t, 5*time.Minute, "a refusal", func() error {
		got := w.send("POST", "/api/v2/auth/device/token/refresh", `"no-such"`)
		if got.status == http.StatusTooManyRequests && got.errorText(t) != "" {
			return nil
		}
		begin() // this one has taken the place of another one
		return fmt.Errorf("%d %s", got.status, got.body)
	})
	if got := w.send("GET", "/api/v2/orgs/", ""); got.status != http.StatusOK {
		t.Errorf("a user: %d %s", got.status, got.body)
	}
}

// A caller with many unfinished requests is refused more, and keeps no other caller from its requests.
func TestCallersAreLimited(t *testing.T) {
	w := newWorld(t)
	body, end := io.Pipe()
	var under sync.WaitGroup
	defer under.Wait()
	defer func() { _ = end.Close() }() // it never fails
	unfinished := func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(w.ctx(), "PUT", w.url+orgPath+"/sandboxes/new-sb", io.NopCloser(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Signadot-Api-Key", memberKey)
		return http.DefaultClient.Do(req)
	}
	begin := func() {
		under.Go(func() {
			if res, err := unfinished(); err == nil {
				res.Body.Close()
			}
		})
	}
	for range 64 {
		begin()
	}
	w.key = memberKey
	wait.Eventually(t, 5*time.Minute, "a refusal", func() error {
		got := w.send("GET", "/api/v2/orgs/", "")
		if got.status == http.StatusTooManyRequests && strings.Contains(got.errorText(t), "under way") {
			return nil
		}
		begin() // this one has taken the place of another one
		return fmt.Errorf("%d %s", got.status, got.body)
	})
	w.key = ""
	if got := w.send("GET", "/api/v2/orgs/", "", "Authorization", "Bearer "+bearer); got.status != http.StatusTooManyRequests {
		t.Errorf("the same user with another credential: %d %s", got.status, got.body)
	}
	// A refusal does not wait for the rest of the body.
	res, err := unfinished()
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more: %s", res.Status)
	}
	w.key = adminKey
	if got := w.send("GET", "/api/v2/orgs/", ""); got.status != http.StatusOK {
		t.Errorf("another caller: %d %s", got.status, got.body)
	}
}
