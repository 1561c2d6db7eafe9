package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/tools/cluster/internal/layout"
)

func planned(t *testing.T) layout.Node {
	t.Helper()
	n, err := layout.New(layout.Config{Volumes: 3}, func(string) string { return "" }, "/home/x")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func planObjects(t *testing.T) []Object {
	t.Helper()
	objects, err := Objects(planned(t))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// server answers every request with handle and returns a client for it.
func server(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return &Client{HTTP: s.Client(), base: s.URL}
}

func TestObjectsMatchTheirPaths(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range planObjects(t) {
		meta := o.Body["metadata"].(object)
		if path.Base(o.Path) != meta["name"] {
			t.Errorf("%s names the object %v", o.Path, meta["name"])
		}
		if ns, ok := meta["namespace"]; ok != strings.Contains(o.Path, "/namespaces/") || ok && !strings.Contains(o.Path, fmt.Sprintf("/namespaces/%s/", ns)) {
			t.Errorf("%s is in namespace %v", o.Path, ns)
		}
		if version := o.Body["apiVersion"].(string); !strings.HasPrefix(o.Path, "/apis/"+version+"/") && !strings.HasPrefix(o.Path, "/api/"+version+"/") {
			t.Errorf("%s has version %s", o.Path, version)
		}
		if seen[o.Path] {
			t.Errorf("%s twice", o.Path)
		}
		seen[o.Path] = true
	}
	if !seen["/api/v1/persistentvolumes/node-02"] || seen["/api/v1/persistentvolumes/node-03"] {
		t.Errorf("want three volumes: %v", seen)
	}
}

func TestNodeIsReady(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"when its condition says so":           {`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, ""},
		"not before there is a condition":      {`{"status":{"conditions":[{"type":"MemoryPressure","status":"False"}]}}`, "has not reported"},
		"not while the condition says why":     {`{"status":{"nodeInfo":{"kubeletVersion":"v1"},"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"no network"}]}}`, "KubeletNotReady: no network"},
		"not while pods are kept away from it": {`{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "not-ready"},
		"also with a mark of somebody's own":   {`{"spec":{"taints":[{"key":"example.com/mine"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.answer) })
			version, err := client.NodeReady(t.Context(), "x")
			if err != nil && version != "" {
				t.Errorf("a version %q together with an error", version)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAMissingNodeIsReported(t *testing.T) {
	client := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	if _, err := client.NodeReady(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "not made itself known") {
		t.Errorf("got %v", err)
	}
	if err := client.DefaultAccount(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

func TestARejectionShowsTheServersMessage(t *testing.T) {
	client := server(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "clusterIP is taken", http.StatusUnprocessableEntity)
	})
	err := client.ApplyAll(t.Context(), planObjects(t))
	if err == nil || !strings.Contains(err.Error(), "clusterIP is taken") {
		t.Errorf("got %v", err)
	}
}

func TestReleasedVolumesAreFreed(t *testing.T) {
	var freed []string
	client := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"items":[
				{"metadata":{"name":"node-00"},"spec":{"storageClassName":"node"},"status":{"phase":"Bound"}},
				{"metadata":{"name":"node-01"},"spec":{"storageClassName":"node"},"status":{"phase":"Released"}},
				{"metadata":{"name":"other"},"spec":{"storageClassName":"nfs"},"status":{"phase":"Released"}}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if !json.Valid(body) || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			t.Errorf("%s: %s", r.Header.Get("Content-Type"), body)
		}
		freed = append(freed, r.URL.Path+" "+string(body))
	})
	names, err := client.Released(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := client.Reuse(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{`/api/v1/persistentvolumes/node-01 {"spec":{"claimRef":null}}`}, freed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAServerThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		silent, asked int32
		good          bool
	}{
		"at first": {1, 2, true}, "for ever": {99, applyTries, false},
	} {
		var asked atomic.Int32
		client := server(t, func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) <= c.silent {
				_, _ = io.Copy(io.Discard, r.Body) // or the server would not see the client go
				<-r.Context().Done()
			}
		})
		client.HTTP.Timeout = 100 * time.Millisecond
		if err := client.Apply(t.Context(), "/api/v1/namespaces/a", object{"kind": "Namespace"}); err == nil != c.good || asked.Load() != c.asked {
			t.Errorf("%s: %v after %d requests, want %d", name, err, asked.Load(), c.asked)
		}
	}
	var asked atomic.Int32
	refusing := server(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	})
	if err := refusing.Apply(t.Context(), "/api/v1/namespaces/a", object{}); err == nil || asked.Load() != 1 {
		t.Errorf("a refusal: %v after %d requests, want an error after one", err, asked.Load())
	}
}
