package controlplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v2 "switchyard.dev/protos/controlplane/v2"
)

// TestCaptures has the answers about a capture of a cluster without a session, of which nothing is recorded yet.
func TestCaptures(t *testing.T) {
	w := newWorld(t)
	done := func(method, path, body, says string) []byte {
		t.Helper()
		got := w.send(method, orgPath+path, body)
		if got.status != http.StatusOK || !strings.Contains(string(got.body), says) {
			t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
		}
		return got.body
	}
	var c v2.Capture
	w.must(json.Unmarshal(done("POST", "/captures", `{"spec":{"sandbox":"demo-sb","duration":"10m"}}`, "demo-sb"), &c))
	one := "/captures/" + c.Name
	done("GET", "/captures?sandbox=demo-sb", "", c.Name)
	done("GET", one, "", `"duration":"10m`)
	done("GET", one+"/requests", "", "[]")
	done("GET", one+"/har", "", `"version":"1.2"`)
	done("PUT", one+"/end", "", c.Name)
	done("DELETE", one, "", "{}")
	for body, says := range map[string]string{
		`{"spec":{"sandbox":"none"}}`: "not found", `{"spec":{"sandbox":"demo-sb","duration":"9h"}}`: "spec.duration", `{"spec":{}}`: "spec.sandbox",
	} {
		if got := w.send("POST", orgPath+"/captures", body); got.status < 400 || got.status >= 500 || !strings.Contains(string(got.body), says) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}
