package controlplane

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/tests/runners"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/spec"
)

const org = "example-org"

// Credentials of a world.
const (
	adminKey     = "admin-key"
	memberKey    = "member-key"
	accountKey   = "account-key"
	otherKey     = "key-of-another-organisation"
	clusterToken = "cluster-token"
	bearer       = "bearer-token"
)

// outputType is the type of output streams.
const outputType = "text/plain; charset=utf-8"

// sessionFor is how long a session of a devbox lasts.
const sessionFor = 2 * time.Minute

// world is a control plane with some objects.
type world struct {
	*testing.T
	store   *store.Store
	handler http.Handler
	url     string
	key     string
	now     time.Time
	log     *lines
	// reader reads cluster demo; nil: its agent is not connected.
	reader client.Reader
	// connect is called before reads of a cluster; it can be nil.
	connect func() error
	// everywhere: reader reads all clusters.
	everywhere bool
	// many: a cluster has all tokens that it may have.
	many bool
	// runner runs jobs; nil: none is reached. kept has their files.
	runner *runners.Runner
	kept   *results.Kept
	// files is their folder.
	files string
	// previews are the preview domains.
	previews endpoints.Domains
}

// newWorld starts a control plane with the organisation of the recorded session.
func newWorld(t *testing.T) *world {
	t.Helper()
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n")
	w := &world{T: t, key: adminKey, now: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), log: &lines{}, files: t.TempDir(), previews: endpoints.Domains{}}
	w.must(err)
	config := store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys}
	if strings.HasPrefix(t.Name(), "TestOnPostgreSQL/") {
		config = store.Config{PostgreSQL: newDatabase(t), Keys: keys}
	}
	w.store, err = store.Open(t.Context(), config)
	w.must(err)
	w.kept, err = results.Open(results.Config{Folder: w.files})
	w.must(err)
	t.Cleanup(func() { _ = w.kept.Close() }) // it was written before
	w.handler = rest.New(rest.Config{
		Captures: &captures.Recorder{Store: captures.Store{Store: w.store, Limits: captures.DefaultLimits}, Files: w.kept.Backend},
		Kept:     w.kept, Streams: &jobs.Streams{Store: jobstore.Store{Store: w.store}, Keys: keys, Kept: w.kept, Dial: w.Dial},
		Store: w.store, Live: live.Clusters{Reader: w.read, Operator: "signadot"},
		Previews: w.previews.Of, LoginURL: "https://control.example.org/activate", Now: func() time.Time { return w.now },
		Logger: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	server := httptest.NewServer(w.handler)
	t.Cleanup(func() {
		server.Close()
		_ = w.store.Close() // it may be closed
	})
	w.url = server.URL
	w.identities()
	w.objects()
	w.jobs()
	w.smartTests()
	w.must(captures.Store{Store: w.store, Limits: captures.DefaultLimits}.Create(w.ctx(), captures.Capture{
		Org: org, Cluster: "demo", Sandbox: "demo-sb", Name: "demo-capture", CreatedAt: w.now, Until: w.now.Add(time.Hour),
	}, w.event()))
	return w
}

// read returns the reader of a cluster.
func (w *world) read(_ context.Context, of, cluster string, _ model.Author) (client.Reader, error) {
	if w.connect != nil {
		return nil, w.connect()
	}
	if w.reader == nil || of != org || cluster != "demo" && !w.everywhere {
		return nil, model.ErrUnreachable
	}
	return w.reader, nil
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) ctx() context.Context { return w.Context() }

// event is an entry of the audit trail for a write of the test itself.
func (w *world) event() model.Event {
	return model.Event{Org: org, ID: rand.Text(), Type: "test", At: w.now, By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
}

func (w *world) identities() {
	s, ctx := w.store, w.ctx()
	for _, name := range []string{org, "other-org"} {
		ev := w.event()
		ev.Org = name
		w.must(s.CreateOrganisation(ctx, model.Organisation{Name: name, DisplayName: "Example", CreatedAt: w.now}, ev))
	}
	for secret, u := range map[string]model.User{
		adminKey: {Org: org, ID: "u-1", Email: "user@example.org", Role: model.RoleAdmin}, memberKey: {Org: org, ID: "u-2", Email: "member@example.org", Role: model.RoleMember},
		otherKey: {Org: "other-org", ID: "u-3", Email: "other@example.org", Role: model.RoleAdmin},
	} {
		ev := w.event()
		ev.Org = u.Org
		w.must(s.PutUser(ctx, u, ev))
		ev.ID = rand.Text()
		w.must(s.CreateAPIKey(ctx, model.APIKey{Org: u.Org, ID: "of-" + u.ID, Owner: model.Principal{Kind: model.KindUser, ID: u.ID}, Masked: secret[:6], Digest: model.DigestOf(secret), CreatedAt: w.now}, ev))
	}
	w.must(s.CreateServiceAccount(ctx, model.ServiceAccount{Org: org, Name: "ci", Role: model.RoleMember, CreatedAt: w.now, UpdatedAt: w.now}, w.event()))
	w.must(s.CreateAPIKey(ctx, model.APIKey{Org: org, ID: "of-ci", Owner: model.Principal{Kind: model.KindServiceAccount, ID: "ci"}, Digest: model.DigestOf(accountKey), CreatedAt: w.now}, w.event()))
	w.must(s.CreateSession(ctx, model.Session{Org: org, UserID: "u-2", Access: model.DigestOf(bearer), Refresh: model.DigestOf("refresh-token"), CreatedAt: w.now, ExpiresAt: w.now.Add(time.Hour), RefreshBy: w.now.Add(24 * time.Hour)}, w.event()))
}

func (w *world) objects() {
	s, ctx := w.store, w.ctx()
	w.must(s.CreateCluster(ctx, model.Cluster{Org: org, Name: "demo", CreatedAt: w.now}, w.event()))
	w.must(s.ReportCluster(ctx, model.Cluster{Org: org, Name: "demo", OperatorVersion: "1.4.0", Config: json.RawMessage(`{"trafficManager":{"enabled":true}}`)}))
	for id, secret := range map[string]string{"tok-1": clusterToken, "tok-2": "another-token"} {
		w.must(s.CreateClusterToken(ctx, model.ClusterToken{Org: org, Cluster: "demo", ID: id, Masked: secret[:6], Digest: model.DigestOf(secret), CreatedAt: w.now}, w.event()))
	}
	for _, name := range []string{"demo-rp@1.1.0", "demo-rp@0.0.0", "other-rp@0.0.0", "new-rp@1.0.0"} {
		w.plugin(name)
	}
	w.sandbox("demo-sb", "k7w2xq9m4zt1c", nil)
	w.sandbox("alex-sb", "a7w2xq9m4zt1c", nil)
	g, err := s.PutRouteGroup(ctx, model.RouteGroup{
		Org: org, Name: "demo-rg", Cluster: "demo", RoutingKey: "r3n8vd5h2pk6y", CreatedAt: w.now, UpdatedAt: w.now,
		Spec: json.RawMessage(`{"cluster":"demo","match":{"label":{"key":"team","value":"demo"}},"ttl":{"duration":"1h","offsetFrom":"noMatchedSandboxes"}}`),
	}, w.event())
	w.must(err)
	_, err = s.Observe(ctx, store.RouteGroup, org, g.Name, g.Cluster, model.Status{Generation: g.Generation, Ready: true})
	w.must(err)
	w.must(s.CreateSecret(ctx, model.Secret{Org: org, Name: "demo-secret", Description: "an example", Value: "canary-value", CreatedAt: w.now, UpdatedAt: w.now}, w.event()))
	for _, id := range []string{"dbx-1", "dbx-2", "dbx-3"} {
		_, err := s.RegisterDevbox(ctx, model.Devbox{Org: org, ID: id, Metadata: map[string]string{"name": id, "machine-id": id}, CreatedAt: w.now, UpdatedAt: w.now}, w.event())
		w.must(err)
	}
}

func (w *world) plugin(name string) {
	w.Helper()
	n, err := spec.ParsePluginName(name)
	w.must(err)
	w.must(w.store.CreatePlugin(w.ctx(), model.Plugin{
		Org: org, Name: n, CreatedAt: w.now, UpdatedAt: w.now,
		Spec: json.RawMessage(`{"runner":{"image":"example.org/runner:1"},"create":[{"name":"provision","script":"#!/bin/sh\n","inputs":[{"name":"dbname","valueFromSandbox":true}],"outputs":[{"name":"host","valueFromPath":"/h"}]}]}`),
	}, w.event()))
}

// sandbox is a sandbox that its cluster has reported to be ready.
func (w *world) sandbox(name, key string, plugins map[string]spec.PluginName) {
	w.Helper()
	s, err := w.store.PutSandbox(w.ctx(), model.Sandbox{
		Org: org, Name: name, Cluster: "demo", RoutingKey: key, Plugins: plugins, CreatedAt: w.now, UpdatedAt: w.now,
		Spec: json.RawMessage(`{"cluster":"demo","labels":{"team":"demo"},"ttl":{"duration":"2d","offsetFrom":"createdAt"},"virtual":[{"name":"v","workload":{"kind":"Deployment","namespace":"hotrod","name":"route"}}]}`),
	}, w.event())
	w.must(err)
	_, err = w.store.Observe(w.ctx(), store.Sandbox, org, name, s.Cluster, model.Status{Generation: s.Generation, Ready: true, Message: "All workloads are available."})
	w.must(err)
}

// removed makes a cluster report that it has no such object any more.
func (w *world) removed(name string) {
	w.Helper()
	_ = teststore.Store{Store: w.store}.DeleteTest(w.ctx(), org, name, w.event()) // there may be none
	for _, what := range []store.Kind{store.Sandbox, store.RouteGroup} {
		generation, err := w.store.Generation(w.ctx(), org)
		w.must(err)
		for ; generation > 0; generation-- {
			done, err := w.store.Finish(w.ctx(), what, org, name, "demo", generation, w.event())
			w.must(err)
			if done {
				return
			}
		}
	}
}

// answer is that of a request.
type answer struct {
	status int
	kind   string
	body   []byte
}

// errorText is the text of an error object.
func (a answer) errorText(t *testing.T) string {
	t.Helper()
	var e struct {
		Code      *int
		Error     *string
		RequestID *string `json:"requestId"`
	}
	if err := json.Unmarshal(a.body, &e); err != nil || e.Code == nil || *e.Code != a.status || e.Error == nil || *e.Error == "" || e.RequestID == nil || *e.RequestID == "" {
		t.Errorf("status %d has no error object: %s", a.status, a.body)
		return ""
	}
	return *e.Error
}

// send sends a request. body is JSON; nil: none.
func (w *world) send(method, path, body string, headers ...string) answer {
	w.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(w.ctx(), method, w.url+path, in)
	w.must(err)
	req.Header.Set("Content-Type", "application/json")
	if w.key != "" {
		req.Header.Set("Signadot-Api-Key", w.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	w.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	w.must(err)
	got := answer{status: res.StatusCode, kind: res.Header.Get("Content-Type"), body: bytes.TrimSpace(text)}
	escaped, _, _ := strings.Cut(path, "?")
	if slices.Contains(bytesOf, operationOf(method, escaped)) && (got.status < http.StatusBadRequest || got.status == http.StatusRequestedRangeNotSatisfiable) {
		succeeded.Store(operationOf(method, escaped), true)
		return got
	}
	if got.kind != "application/json" {
		w.Errorf("%s %s: content type %s", method, path, got.kind)
	}
	if name := operationOf(method, escaped); name != "" && name != "getOpenAPI" && got.status < http.StatusBadRequest {
		succeeded.Store(name, true)
		if err := sound(name, got.body); err != nil {
			w.Errorf("%s %s: %v: %s", method, path, err, got.body)
		}
	}
	return got
}

// by is an event of a principal.
func (w *world) by(p model.Principal) model.Event {
	ev := w.event()
	ev.By = p
	return ev
}

// jobs adds runner groups, and jobs: the first has ended, with a file and output, the second runs, the third waits.
func (w *world) jobs() {
	w.Helper()
	in, ctx := jobstore.Store{Store: w.store}, w.ctx()
	for _, name := range []string{"demo-jrg", "new-jrg"} {
		_, err := in.PutGroup(ctx, model.RunnerGroup{Org: org, Name: name, Cluster: "demo", Namespace: "signadot", Spec: json.RawMessage(`{"cluster":"demo","image":"example.org/runner:1"}`), CreatedAt: w.now, UpdatedAt: w.now}, w.event())
		w.must(err)
	}
	for _, of := range []struct {
		name string
		a    model.Attempt
	}{
		{"demo-job-1", model.Attempt{Phase: model.PhaseSucceeded, Executions: 1, ExitCode: new(int32(0)), FinishedAt: w.now, Output: "Kept"}},
		{"demo-job-2", model.Attempt{Phase: model.PhaseRunning, Executions: 1, PodName: "pod", PodNamespace: "signadot", StartedAt: w.now}},
		{"demo-job-x7f2q", model.Attempt{Phase: model.PhaseQueued}},
	} {
		name, a := of.name, of.a
		j, err := in.Submit(ctx, model.Job{Org: org, Name: name, Group: "demo-jrg", Sandbox: "demo-sb", Spec: json.RawMessage(`{"runnerGroup":"demo-jrg","script":"#!/bin/sh\n"}`), CreatedAt: w.now}, w.event())
		w.must(err)
		if a.Phase == model.PhaseQueued {
			continue
		}
		_, err = in.Attempt(ctx, j, w.now)
		w.must(err)
		_, err = in.Observe(ctx, j, a)
		w.must(err)
	}
	w.left("example artifact\n", "example artifact\n")
}

// left stores what job demo-job-1 has left: stdout, also as a file, and stderr.
func (w *world) left(stdout, stderr string) {
	w.Helper()
	m := results.Manifest{Execution: 1, At: w.now, Files: []results.File{
		{Path: "/data/report.txt", Space: results.User, ContentType: "text/html", Meta: map[string]string{"kind": "report"}},
		{Path: "stdout", Space: results.System, ContentType: outputType}, {Path: "stderr", Space: results.System, ContentType: outputType},
	}}
	for i, text := range []string{stdout, stdout, stderr} {
		w.must(w.kept.Put(w.ctx(), org, "demo-job-1", &m.Files[i], func(to io.Writer) error { _, err := io.WriteString(to, text); return err }))
	}
	m.Files = append(m.Files, results.File{Path: "/data/none.txt", Space: results.User, Problem: "There is no such file."})
	w.must(w.kept.Finish(w.ctx(), org, "demo-job-1", m))
}

// lost deletes the files of job demo-job-1, and keeps their manifest.
func (w *world) lost() {
	w.Helper()
	all, err := filepath.Glob(filepath.Join(w.files, org, "demo-job-1", "*"))
	w.must(err)
	for _, file := range all {
		if filepath.Base(file) != "manifest" {
			w.must(os.Remove(file))
		}
	}
}
