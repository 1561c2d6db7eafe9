package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// TestNoSecretLeaves: API keys, cluster tokens, tokens of logins, values of secrets and of variables are in no log, no
// entry of the audit trail and no metric, also if they are sent where they do not belong, and while the store fails.
func TestNoSecretLeaves(t *testing.T) {
	w := newWorld(t)
	const value = "canary-of-a-value"
	canaries := []string{value}
	made := func(path string, into ...string) {
		t.Helper()
		got := w.send("POST", path, "{}")
		var fields map[string]any
		if err := json.Unmarshal(got.body, &fields); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.status, got.body)
		}
		for _, name := range into {
			canaries = append(canaries, fields[name].(string))
		}
	}
	made(orgPath+"/users/u-1/api-keys", "token")
	made(orgPath+"/service-accounts/ci/api-keys", "token")
	made(orgPath+"/clusters/demo/tokens", "token")
	c := w.login()
	w.must(w.store.DecideDeviceLogin(w.ctx(), model.DigestOf(c.DeviceCode), "u-2", model.Digest{}, false, w.event()))
	_, token := w.poll(c, 5*time.Second)
	canaries = append(canaries, c.DeviceCode, *token.AccessToken, *token.RefreshToken)
	send := func() {
		env := `,"forks":[{"forkOf":{"kind":"Deployment","namespace":"a","name":"b"},"customizations":{"env":[{"name":"A","value":"` + value + `"}]}}]`
		for request, body := range map[string]string{
			"PUT /sandboxes/new-sb": `{"spec":` + virtual(env) + `}`, "PUT /sandboxes/bad-sb": `{"spec":` + virtual(env+`,"`+value+`":1`) + `}`, "PUT /routegroups/new-rg": `{"spec":"` + value + `"}`,
			"POST /secrets": `{"name":"new","value":"` + value + `"}`, "PUT /secrets/demo-secret": `{"value":"` + value + `","description":1}`, "POST /service-accounts": `{"name":"` + value + `!"}`,
			"PUT /resource-plugins/new-rp": `{"name":"new-rp","spec":{"runner":{"image":"i"},"create":[{"name":"a","script":"` + value + `"}]}}`, "GET /events?type=" + value: "", "GET /sandboxes/" + value: "",
		} {
			method, path, _ := strings.Cut(request, " ")
			w.send(method, orgPath+path, body)
		}
		for _, secret := range canaries {
			for _, header := range []string{"Signadot-Api-Key", "Signadot-Cluster-Token", "Authorization"} {
				w.send("GET", "/api/v2/orgs/", "", "Signadot-Api-Key", "", header, map[bool]string{true: "Bearer "}[header == "Authorization"]+secret)
			}
			w.send("POST", "/api/v2/auth/device/token/refresh", `"`+secret+`"`)
			w.send("POST", "/api/v2/auth/device/token/", `{"deviceCode":"`+secret+`"}`)
		}
	}
	send()
	audited := w.send("GET", orgPath+"/events?limit=1000", "")
	if n := strings.Count(string(audited.body), `"type"`); n < 8 {
		t.Errorf("%d entries: %s", n, audited.body)
	}
	w.must(w.store.Close())
	send()
	log := w.log.String()
	if n := strings.Count(log, "A request has failed"); n < 10 {
		t.Errorf("%d requests have failed without a store: %s", n, log)
	}
	for _, secret := range canaries {
		for where, text := range map[string]string{"log": log, "audit trail": string(audited.body), "metrics": measured(t)} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has %q", where, secret)
			}
		}
	}
}

// measured returns the metrics of this process, with their labels.
func measured(t *testing.T) string {
	t.Helper()
	all, err := prometheus.Gatherers{prometheus.DefaultGatherer, metrics.Registry}.Gather()
	if len(all) == 0 {
		t.Fatalf("there are no metrics: %v", err)
	}
	return fmt.Sprint(all)
}

// TestTransactionsOfARequest: a specification takes at most two transactions with its audit entry, and with the use
// of the credential.
func TestTransactionsOfARequest(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		writes, observations := w.store.Transactions()
		if got := w.send("PUT", orgPath+"/sandboxes/new-sb", `{"spec":`+virtual("")+`}`); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		w.now = w.now.Add(time.Hour) // the use of the credential is recorded again
		if n, o := w.store.Transactions(); n != writes+1 || o > observations+1 {
			t.Errorf("%d writes, %d observations", n-writes, o-observations)
		}
	}
}

// TestASandboxEnds at the time that its answers name, whatever its cluster does.
func TestASandboxEnds(t *testing.T) {
	w := newWorld(t)
	status := func() (ends, reason string) {
		t.Helper()
		var s struct {
			Status struct{ ScheduledDeleteTime, Reason string }
		}
		if err := json.Unmarshal(w.send("GET", orgPath+"/sandboxes/demo-sb", "").body, &s); err != nil {
			t.Fatal(err)
		}
		return s.Status.ScheduledDeleteTime, s.Status.Reason
	}
	text, _ := status()
	ends, err := time.Parse(time.RFC3339, text)
	w.must(err)
	end := func(at time.Time) {
		t.Helper()
		w.must(w.store.EndLifetimes(w.ctx(), org, at, func(store.Kind, string) model.Event { return w.event() }))
	}
	end(ends.Add(-time.Second))
	if _, reason := status(); reason == "Terminating" {
		t.Error("it ends too early")
	}
	end(ends)
	if _, reason := status(); reason != "Terminating" {
		t.Errorf("its reason is %s", reason)
	}
	w.removed("demo-sb")
	if got := w.send("GET", orgPath+"/sandboxes/demo-sb", ""); got.status != http.StatusNotFound {
		t.Errorf("after its object: %d %s", got.status, got.body)
	}
}
