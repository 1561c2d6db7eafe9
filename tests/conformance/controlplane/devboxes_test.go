package controlplane

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	v2 "switchyard.dev/protos/controlplane/v2"
)

// TestTheSessionOfASandboxIsThatOfItsDevbox: the status of a sandbox has no session that has ended, or that is
// of the devbox of another user.
func TestTheSessionOfASandboxIsThatOfItsDevbox(t *testing.T) {
	w := newWorld(t)
	read := func(a answer, into any) {
		t.Helper()
		if err := json.Unmarshal(a.body, into); a.status >= 300 || err != nil {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	as := []string{"Authorization", "Bearer " + bearer}
	w.key = ""
	var d v2.Devbox
	read(w.send("POST", orgPath+"/devboxes/", `{"metadata":{"name":"laptop","machine-id":"m"},"claim":true}`, as...), &d)
	spec := `{"spec":{"cluster":"demo","connection":{"devboxId":"` + d.ID + `"},"local":[{"name":"l","from":{"kind":"Deployment","namespace":"shop","name":"web"},"mappings":[{"port":80,"toLocal":"localhost:8080"}]}]}}`
	// session returns the session in the status, by GET and in the list.
	session := func(headers ...string) *v2.ConnectSession {
		t.Helper()
		var one v2.Sandbox
		var all []v2.Sandbox
		read(w.send("GET", orgPath+"/sandboxes/bound", "", headers...), &one)
		read(w.send("GET", orgPath+"/sandboxes", "", headers...), &all)
		for _, s := range append(all, one) {
			if c := s.Status.Connection; s.Name == "bound" && (c == nil || *c.Devbox != d.ID || (c.Session == nil) != (one.Status.Connection.Session == nil)) {
				t.Fatalf("the connection of %s is %+v", s.Name, c)
			}
		}
		return one.Status.Connection.Session
	}
	var put v2.Sandbox
	read(w.send("PUT", orgPath+"/sandboxes/bound", spec, as...), &put)
	if s := session(as...); s == nil || s.ID != d.Status.Session.ID || put.Status.Connection == nil {
		t.Fatalf("session %+v, want %+v", s, d.Status.Session)
	}
	if s := session("Signadot-Api-Key", accountKey); s != nil {
		t.Errorf("a service account is shown the session of a user: %+v", s)
	}
	w.now = w.now.Add(sessionFor)
	if s := session(as...); s != nil {
		t.Errorf("a session that has ended: %+v", s)
	}
	if got := w.send("GET", orgPath+"/devboxes/"+d.ID+"/renew/"+d.Status.Session.ID, "", as...); got.status != http.StatusConflict {
		t.Errorf("a session that has ended is renewed: %d %s", got.status, got.body)
	}
	read(w.send("GET", orgPath+"/devboxes/"+d.ID+"/claim", "", as...), &d)
	w.now = w.now.Add(time.Second)
	if s := session(as...); s == nil || s.ID != d.Status.Session.ID {
		t.Errorf("session %+v after another claim, want %+v", s, d.Status.Session)
	}
	var released v2.Devbox
	read(w.send("GET", orgPath+"/devboxes/"+d.ID+"/release", "", as...), &released)
	if s := session(as...); s != nil || released.Status.Session != nil {
		t.Errorf("a session that was released: %+v", s)
	}
}
