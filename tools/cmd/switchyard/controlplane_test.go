package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/preview/endpoints"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

// API keys of the tests.
const (
	adminKey  = "key-of-an-administrator"
	memberKey = "key-of-a-member"
)

// controlPlane is a control plane with organisation acme and cluster demo, and the command line that uses it.
type controlPlane struct {
	*testing.T
	store *store.Store
	url   string
	ca    string
	dir   string
	env   map[string]string
	// previews are the preview domains; none at first.
	previews endpoints.Domains
	// before handles a request first; it reports whether it has answered.
	before func(http.ResponseWriter, *http.Request) bool
}

func newControlPlane(t *testing.T) *controlPlane { return newControlPlaneOf(t, live.Clusters{}) }

// newControlPlaneOf is newControlPlane with reads of clusters.
func newControlPlaneOf(t *testing.T, reads live.Clusters) *controlPlane {
	t.Helper()
	p := &controlPlane{T: t, dir: t.TempDir(), env: map[string]string{"SIGNADOT_API_KEY": adminKey}, previews: endpoints.Domains{}}
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n")
	p.must(err)
	p.store, err = store.Open(t.Context(), store.Config{Path: filepath.Join(p.dir, "store.db"), Keys: keys})
	p.must(err)
	s := p.store
	handler := rest.New(rest.Config{
		Store: s, Live: reads, Previews: p.previews.Of, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.before == nil || !p.before(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p.url = server.URL
	p.ca = p.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	now := time.Now().UTC().Truncate(time.Microsecond)
	p.must(s.CreateOrganisation(t.Context(), model.Organisation{Name: "acme", DisplayName: "Acme", CreatedAt: now}, p.event()))
	for secret, role := range map[string]model.Role{adminKey: model.RoleAdmin, memberKey: model.RoleMember} {
		p.must(s.PutUser(t.Context(), model.User{Org: "acme", ID: string(role), Email: string(role) + "@example.org", Role: role}, p.event()))
		p.must(s.CreateAPIKey(t.Context(), model.APIKey{Org: "acme", ID: "of-" + string(role), Owner: model.Principal{Kind: model.KindUser, ID: string(role)}, Digest: model.DigestOf(secret), CreatedAt: now}, p.event()))
	}
	for _, name := range []string{"demo", "other"} {
		p.must(s.CreateCluster(t.Context(), model.Cluster{Org: "acme", Name: name, CreatedAt: now}, p.event()))
	}
	return p
}

func (p *controlPlane) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *controlPlane) event() model.Event {
	return model.Event{Org: "acme", ID: rand.Text(), Type: "test", At: time.Now().UTC(), By: model.Principal{Kind: model.KindSystem, ID: "test"}, Method: model.MethodInternal}
}

// write writes a file, and returns its path.
func (p *controlPlane) write(name, text string) string {
	p.Helper()
	path := filepath.Join(p.dir, name)
	p.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// run runs the program, without the flags of the control plane.
func (p *controlPlane) run(ctx context.Context, args ...string) (code exit.Code, out, errs string) {
	p.Helper()
	var o, e bytes.Buffer
	config := command.Config{Name: "switchyard", In: strings.NewReader(""), Out: &o, Err: &e, Getenv: func(name string) string { return p.env[name] }}
	code = switchyard.Main(ctx, config, args)
	return code, o.String(), e.String()
}

// does runs a command that ends with a code and prints some words.
func (p *controlPlane) does(code exit.Code, says string, args ...string) string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), world.Patience)
	defer cancel()
	got, out, errs := p.run(ctx, append(args, "--control-plane", p.url, "--control-plane-ca", p.ca)...)
	if got != code || !strings.Contains(out+errs, says) {
		p.Errorf("%s: exit code %d, not %d, or without %q\n%s%s", strings.Join(args, " "), got, code, says, out, errs)
	}
	if strings.Contains(out+errs, adminKey) || strings.Contains(out+errs, memberKey) {
		p.Errorf("%s shows the API key\n%s%s", strings.Join(args, " "), out, errs)
	}
	return out
}

// observed makes cluster demo report a sandbox and a route group.
func (p *controlPlane) observed(sandbox, group string, st model.Status) {
	p.Helper()
	if sandbox != "" {
		s, err := p.store.Sandbox(p.Context(), "acme", sandbox)
		p.must(err)
		st.Generation = s.Generation
		_, err = p.store.Observe(p.Context(), store.Sandbox, "acme", sandbox, "demo", st)
		p.must(err)
	}
	if group != "" {
		g, err := p.store.RouteGroup(p.Context(), "acme", group)
		p.must(err)
		st.Generation = g.Generation
		_, err = p.store.Observe(p.Context(), store.RouteGroup, "acme", group, "demo", st)
		p.must(err)
	}
}

// finished makes the clusters report that they have no such object any more.
func (p *controlPlane) finished(name string) bool {
	p.Helper()
	for _, kind := range []store.Kind{store.Sandbox, store.RouteGroup} {
		generation, err := p.store.Generation(p.Context(), "acme")
		p.must(err)
		for ; generation > 0; generation-- {
			done, err := p.store.Finish(p.Context(), kind, "acme", name, "demo", generation, p.event())
			p.must(err)
			if done {
				return true
			}
		}
	}
	return false
}

const publishedSandbox = `
name: "@{name}"
spec:
  cluster: demo
  description: mine
  ttl: {duration: 2d, offsetFrom: createdAt}
  labels: {team: same-team}
  resources: [{name: store, plugin: db, params: {size: small}}]
  forks:
  - forkOf: {kind: Deployment, namespace: shop, name: cart}
    customizations:
      images: [{image: "cart:2"}]
      env: [{name: HOST, valueFrom: {resource: {name: store, outputKey: make.host}}}]
  local:
  - name: front
    from: {kind: Deployment, namespace: shop, name: front}
    mappings: [{port: 80, toLocal: "localhost:8080"}]
  virtual: [{name: seen, workload: {kind: Deployment, namespace: shop, name: stock}}]
  defaultRouteGroup: {endpoints: [{name: cart, target: "http://cart.shop.svc:80"}]}
`

const publishedGroup = `
name: both
spec:
  cluster: demo
  description: tested together
  match: {label: {key: team, value: "same-*"}}
  endpoints: [{name: front, target: "http://frontend.shop.svc:8080"}]
`

// moment matches a time of an output.
var moment = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(Z| [A-Z]+)`)

// inClusters matches the name of the cluster of a resource, which only a control plane has.
var inClusters = regexp.MustCompile(`,\s+"cluster": "demo"|cluster: demo\n    `)

// comparable returns an output without what cannot be equal in a cluster and in a control plane: times, and
// the routing keys, which are names in a cluster.
func comparable(out string, keys map[string]string) string {
	for key, name := range keys {
		out = strings.ReplaceAll(out, key, name)
	}
	return moment.ReplaceAllString(out, "TIME")
}

// TestAControlPlaneHasTheOutputOfACluster applies the same files to a cluster and to a control plane, and compares
// the output of each command byte by byte, except for times and routing keys.
func TestAControlPlaneHasTheOutputOfACluster(t *testing.T) {
	d := newDesk(t, "same-operator")
	p := newControlPlane(t)
	p.write("make.sh", "#!/bin/sh\necho made\n")
	d.write("make.sh", "#!/bin/sh\necho made\n")
	both := func(name, text string) (string, string) { return d.write(name, text), p.write(name, text) }
	keys := map[string]string{}
	compare := func(file string, code exit.Code, inCluster, inPlane []string) {
		t.Helper()
		got := comparable(inClusters.ReplaceAllString(p.does(code, "", inPlane...), ""), keys)
		if want := comparable(d.does(t, code, "", inCluster...), nil); want != got {
			t.Errorf("%s (-cluster +control plane):\n%s", strings.Join(inPlane, " "), cmp.Diff(want, got))
		}
		if file != "" {
			golden.Compare(t, "testdata/controlplane-"+file, got)
		}
	}
	same := func(file string, code exit.Code, args ...string) { t.Helper(); compare(file, code, args, args) }

	for _, version := range []string{"1.0.0", "1.1.0", "1.0.0"} {
		a, b := both("db.yaml", strings.ReplaceAll(databasePlugin, "VERSION", version))
		compare("", exit.OK, []string{"resourceplugin", "apply", "-f", a}, []string{"resourceplugin", "apply", "-f", b})
	}
	a, b := both("changed.yaml", strings.ReplaceAll(strings.ReplaceAll(databasePlugin, "VERSION", "1.0.0"), "db:1", "db:2"))
	compare("", exit.No, []string{"resourceplugin", "apply", "-f", a}, []string{"resourceplugin", "apply", "-f", b})

	a, b = both("sandbox.yaml", publishedSandbox)
	apply := func(name, path string) []string {
		return []string{"sandbox", "apply", "-f", path, "--set", "name=" + name, "--wait=false"}
	}
	for _, name := range []string{"same-a", "same-b"} {
		p.does(exit.OK, "sandbox "+name+" is written, with the routing key ", apply(name, b)...)
		s, err := p.store.Sandbox(t.Context(), "acme", name)
		p.must(err)
		keys[s.RoutingKey] = name
		compare("", exit.OK, apply(name, a), apply(name, b))
	}
	// They keep the version of the plugin that they have.
	a, b = both("newer.yaml", strings.ReplaceAll(databasePlugin, "VERSION", "2.0.0"))
	compare("", exit.OK, []string{"resourceplugin", "apply", "-f", a}, []string{"resourceplugin", "apply", "-f", b})
	p.does(exit.OK, "sandbox.yaml:8: spec.resources[0].plugin is \"db\" without a version, so the resource keeps version 1.1.0; the newest is 2.0.0", apply("same-a", p.dir+"/sandbox.yaml")...)
	a, b = both("group.yaml", publishedGroup)
	group := func(path string) []string { return []string{"routegroup", "apply", "-f", path, "--wait=false"} }
	p.does(exit.OK, "route group both has the sandboxes that match now: same-a, same-b\n", group(b)...)
	g, err := p.store.RouteGroup(t.Context(), "acme", "both")
	p.must(err)
	keys[g.RoutingKey] = "both"
	compare("", exit.OK, group(a), group(b))

	report := func(name string, ready bool, reason, message string) {
		t.Helper()
		o := &crdv1.SignadotSandbox{}
		o.Name = name
		d.Get(o)
		status := map[bool]string{true: "True", false: "False"}[ready]
		o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation}}
		o.Status.ManagedResources = []crdv1.SandboxResourceStatus{{Name: "store", Ready: ready, Failed: reason == crdv1.ReasonResourceFailed}}
		d.Must(d.Client.Status().Update(t.Context(), o))
		p.observed(name, "", model.Status{Ready: ready, Reason: reason, Message: message})
	}
	report("same-a", true, "Ready", "All workloads are available.")
	report("same-b", false, crdv1.ReasonResourceFailed, `Resource "store" (Resource x) failed, and its forks do not start: it is full.`)
	o := &crdv1.SignadotRouteGroup{}
	o.Name = "both"
	d.Get(o)
	o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "False", Reason: "NotAllReady", Message: "1 of 2 are ready.", ObservedGeneration: o.Generation}}
	o.Status.ReadySandboxes = 1
	d.Must(d.Client.Status().Update(t.Context(), o))
	p.observed("", "both", model.Status{Reason: "NotAllReady", Message: "1 of 2 are ready."})

	for _, form := range []string{"table", "json", "yaml"} {
		same("sandbox-get."+form, exit.OK, "sandbox", "get", "same-a", "-o", form)
		same("sandbox-failed."+form, exit.OK, "sandbox", "get", "same-b", "-o", form)
		same("routegroup-get."+form, exit.OK, "routegroup", "get", "both", "-o", form)
	}
	same("", exit.OK, "resourceplugin", "list")
	same("", exit.OK, "resourceplugin", "list", "-A")
	same("plugin-versions.table", exit.OK, "resourceplugin", "versions", "db")
	same("", exit.OK, "resourceplugin", "versions", "db", "-o", "json")
	same("", exit.No, "resourceplugin", "versions", "queue")
	for _, kind := range []string{"sandbox", "routegroup"} { // The cluster has those of other tests, too.
		want, got := rows(d.does(t, exit.OK, "", kind, "list"), nil), rows(p.does(exit.OK, "", kind, "list"), keys)
		if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
			t.Errorf("%s list (-cluster +control plane):\n%s", kind, diff)
		}
	}
	p.previews["acme"] = "preview.example.net" // A cluster has no URLs.
	p.does(exit.OK, "Endpoint:     cart http://cart.shop.svc:80 https://cart--same-a.preview.example.net\n", "sandbox", "get", "same-a")
	p.does(exit.OK, "Endpoint:     front http://frontend.shop.svc:8080 https://front--both.preview.example.net\n", "routegroup", "get", "both")
	p.does(exit.OK, `"url": "https://front--both.preview.example.net"`, "routegroup", "get", "both", "-o", "json")
	for _, form := range []string{"table", "json"} {
		same("plugin-get."+form, exit.OK, "resourceplugin", "get", "db@1.1.0", "-o", form)
	}
	same("", exit.OK, "resourceplugin", "delete", "db") // the highest
	same("", exit.No, "resourceplugin", "delete", "db")
	same("", exit.No, "resourceplugin", "get", "queue")
	same("", exit.No, "sandbox", "get", "nothing")
	same("", exit.No, "routegroup", "delete", "nothing")
	same("", exit.No, "resourceplugin", "delete", "nothing")
	for name, kind := range map[string]string{"same-a": "sandbox", "same-b": "sandbox", "both": "routegroup"} {
		same("", exit.OK, kind, "delete", name, "--wait=false")
		if !p.finished(name) {
			t.Errorf("%s %s is not deleted", kind, name)
		}
	}
	same("", exit.OK, "resourceplugin", "delete", "db")
	same("", exit.OK, "resourceplugin", "delete", "db@1.0.0")
	same("", exit.OK, "resourceplugin", "list")
}

// rows returns the rows of a table about the objects of TestAControlPlaneHasTheOutputOfACluster.
func rows(table string, keys map[string]string) (out []string) {
	for line := range strings.Lines(comparable(table, keys)) {
		if words := strings.Fields(line); strings.HasPrefix(line, "same-") || strings.HasPrefix(line, "both") {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

// TestErrorsOfAControlPlane: each error has an exit code and a remedy, and shows no key.
func TestErrorsOfAControlPlane(t *testing.T) {
	p := newControlPlane(t)
	sandbox := func(name, cluster, more string) string {
		return p.write(name+".yaml", "name: "+name+"\nspec:\n"+cluster+"  virtual: [{name: v, workload: {kind: Deployment, namespace: shop, name: cart}}]\n"+more)
	}
	good := sandbox("good", "  cluster: demo\n", "")
	apply := []string{"sandbox", "apply", "--wait=false", "-f"}
	p.does(exit.OK, "sandbox good is written", append(apply, good)...)
	p.does(exit.OK, "is being deleted", "sandbox", "delete", "good", "--wait=false")
	p.does(exit.OK, "", "routegroup", "apply", "--wait=false", "-f", p.write("taken.yaml", strings.Replace(publishedGroup, "both", "taken", 1)))

	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, p.url, http.StatusFound)
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	defer page.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	defer silent.Close()
	file := func(name, text string) string { return p.write(name, text) }
	at := func(url string, args ...string) []string {
		return append([]string{"sandbox", "list", "--control-plane", url}, args...)
	}
	here := func(args ...string) []string {
		return append(args, "--control-plane", p.url, "--control-plane-ca", p.ca)
	}
	for name, c := range map[string]struct {
		key  string
		args []string
		code exit.Code
		says string
	}{
		"it works":                  {adminKey, here("sandbox", "list"), exit.OK, "good"},
		"its path is given":         {adminKey, at(p.url+"/api/v2/", "--control-plane-ca", p.ca), exit.OK, "good"},
		"the key is in a file":      {"", here("sandbox", "list", "--api-key-file", file("key", memberKey+"\n")), exit.OK, "good"},
		"no key":                    {"", here("sandbox", "list"), exit.Usage, "set SIGNADOT_API_KEY, or give a file with --api-key-file"},
		"a file without a key":      {"", here("sandbox", "list", "--api-key-file", file("empty", "")), exit.Usage, "does not have one line with the key"},
		"another key":               {"wrong", here("sandbox", "list"), exit.Failed, "does not accept the API key: check SIGNADOT_API_KEY"},
		"another organisation":      {adminKey, here("sandbox", "list", "--organisation", "other"), exit.Failed, `the credential is not of organisation "other"`},
		"a member adds a cluster":   {memberKey, here("cluster", "add", "--name", "new"), exit.Failed, "ask an administrator"},
		"no URL":                    {adminKey, at("control.example.com"), exit.Usage, "is not the URL of a control plane"},
		"another scheme":            {adminKey, at("ftp://control.example.com"), exit.Usage, "is not the URL of a control plane"},
		"a password in the URL":     {adminKey, at("https://me:secret@control.example.com"), exit.Usage, "give a file with --api-key-file"},
		"in clear":                  {adminKey, at("http://192.0.2.1"), exit.Usage, "would send the API key to 192.0.2.1 in clear"},
		"another authority":         {adminKey, at(p.url), exit.Unavailable, "name the file of its authority with --control-plane-ca"},
		"another name":              {adminKey, at(strings.Replace(p.url, "127.0.0.1", "localhost", 1), "--control-plane-ca", p.ca), exit.Unavailable, "name the file of its authority with --control-plane-ca, and a host that it is for in --control-plane"},
		"no file of the authority":  {adminKey, at(p.url, "--control-plane-ca", "none"), exit.Usage, "the file of --control-plane-ca cannot be read"},
		"no authority in the file":  {adminKey, at(p.url, "--control-plane-ca", good), exit.Usage, "has no certificate in PEM"},
		"nothing listens":           {adminKey, at("https://127.0.0.1:1"), exit.Unavailable, "is not reached"},
		"no answer":                 {adminKey, at("http://"+silent.Addr().String(), "--request-timeout", "100ms"), exit.Unavailable, "does not answer within --request-timeout"},
		"no TLS":                    {adminKey, at(strings.Replace(page.URL, "http:", "https:", 1)), exit.Unavailable, "is not reached"},
		"another server":            {adminKey, at(page.URL), exit.Unavailable, "not as the API of a control plane"},
		"another server redirects":  {adminKey, at(page.URL + "/moved"), exit.Unavailable, "(302 Found): check --control-plane"},
		"two sites":                 {adminKey, here("sandbox", "list", "--kubeconfig", "x"), exit.Usage, "--control-plane excludes --kubeconfig and --context: give one"},
		"no cluster in the file":    {adminKey, here(append(apply, sandbox("lost", "", ""))...), exit.Usage, "lost.yaml:2: spec.cluster is missing; name a registered cluster"},
		"an unknown cluster":        {adminKey, here(append(apply, sandbox("far", "  cluster: nowhere\n", ""))...), exit.Usage, `far.yaml:3: spec.cluster is wrong: cluster "nowhere" not found`},
		"an unknown plugin":         {adminKey, here(append(apply, sandbox("rich", "  cluster: demo\n", "  resources:\n  - {name: a, plugin: gold}\n"))...), exit.Usage, `rich.yaml:6: spec.resources[0].plugin is "gold", and there is no such plugin`},
		"a name of a route group":   {adminKey, here(append(apply, sandbox("taken", "  cluster: demo\n", ""))...), exit.No, "a sandbox and a route group cannot share a name"},
		"one that is being deleted": {adminKey, here(append(apply, good)...), exit.No, "is being deleted; apply it again"},
		"no such sandbox":           {adminKey, here("sandbox", "get", "nothing"), exit.No, "there is no sandbox nothing"},
		"no such route group":       {adminKey, here("routegroup", "get", "nothing"), exit.No, "there is no route group nothing"},
		"no such plugin":            {adminKey, here("resourceplugin", "get", "nothing"), exit.No, "there is no resource plugin nothing"},
		"a cluster twice":           {adminKey, here("cluster", "add", "--name", "demo"), exit.No, "cluster already exists"},
		"tokens of no cluster":      {adminKey, here("cluster", "token", "list", "--cluster", "nowhere"), exit.No, `cluster "nowhere" not found`},
		"no such token":             {adminKey, here("cluster", "token", "delete", "x", "--cluster", "demo"), exit.No, "cluster token not found"},
		"no control plane":          {adminKey, []string{"cluster", "list"}, exit.Usage, "give its URL with --control-plane or SWITCHYARD_CONTROL_PLANE"},
		"force in a cluster":        {adminKey, []string{"sandbox", "delete", "x", "--force"}, exit.Usage, "use switchyard resource give-up"},
		"connect":                   {adminKey, here("connect"), exit.Usage, "switchyard connect does not use --control-plane: use --proxy-url URL and --cluster NAME"},
		"the environment":           {adminKey, here("sandbox", "get-env", "x"), exit.Usage, "use a kubeconfig (--kubeconfig, --context); sandbox get has the status"},
		"steps":                     {adminKey, here("resource", "list"), exit.Usage, "use a kubeconfig (--kubeconfig, --context)"},
		"a table":                   {adminKey, here("table"), exit.Usage, "use a route server (--server) or a kubeconfig (--kubeconfig, --context)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &controlPlane{T: t, env: map[string]string{"SIGNADOT_API_KEY": c.key}}
			code, out, errs := p.run(t.Context(), c.args...)
			if code != c.code || !strings.Contains(out+errs, c.says) || c.code != exit.OK && out != "" {
				t.Errorf("%s: exit code %d, not %d, or without %q\n%s%s", strings.Join(c.args, " "), code, c.code, c.says, out, errs)
			}
			for _, secret := range []string{adminKey, memberKey, "secret@"} {
				if strings.Contains(out+errs, secret) {
					t.Errorf("it shows %q: %s%s", secret, out, errs)
				}
			}
		})
	}
	p.env["SWITCHYARD_CONTROL_PLANE"], p.env["SIGNADOT_ORG"] = p.url, "acme"
	for says, args := range map[string][]string{"good": {"sandbox", "list", "--control-plane-ca", p.ca}, "a cluster is needed": {"sandbox", "list", "--kubeconfig", os.DevNull}} {
		if _, out, errs := p.run(t.Context(), args...); !strings.Contains(out+errs, says) {
			t.Errorf("with a control plane in the environment %s is without %q: %s%s", strings.Join(args, " "), says, out, errs)
		}
	}
}

// refusal answers with the error object of a control plane.
func refusal(w http.ResponseWriter, status int) bool {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"code": %d, "error": "this is refused", "requestId": "req-7"}`, status)
	return true
}

// TestABusyControlPlaneIsAskedAgain: requests that were refused for now are sent again, and others are not.
func TestABusyControlPlaneIsAskedAgain(t *testing.T) {
	p := newControlPlane(t)
	file := p.write("s.yaml", "name: s\nspec: {cluster: demo, virtual: [{name: v, workload: {kind: Deployment, namespace: shop, name: cart}}]}\n")
	p.does(exit.OK, "is written", "sandbox", "apply", "-f", file, "--wait=false")
	for name, c := range map[string]struct {
		method string
		status int
		args   []string
		code   exit.Code
		says   string
		asked  int
	}{
		"too many writes":     {"PUT", 429, []string{"sandbox", "apply", "-f", file, "--wait=false"}, exit.OK, "is written", 2},
		"too many reads":      {"GET", 429, []string{"sandbox", "get", "s"}, exit.OK, "Status:", 2},
		"reads in a restart":  {"GET", 503, []string{"sandbox", "get", "s"}, exit.OK, "Status:", 2},
		"writes in a restart": {"DELETE", 503, []string{"sandbox", "delete", "s", "--wait=false"}, exit.Unavailable, "cannot answer now: this is refused. Try again", 1},
		"a fault":             {"GET", 500, []string{"sandbox", "get", "s"}, exit.Failed, "has failed: this is refused (request req-7, for its log)", 1},
		"not served":          {"GET", 501, []string{"sandbox", "get", "s"}, exit.Unavailable, "this is refused: use a kubeconfig, without --control-plane", 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			p.T, p.before = t, func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != c.method || !strings.HasSuffix(r.URL.Path, "/sandboxes/s") {
					return false
				}
				asked++
				return asked == 1 && refusal(w, c.status)
			}
			if p.does(c.code, c.says, c.args...); asked != c.asked {
				t.Errorf("asked %d times, not %d", asked, c.asked)
			}
		})
	}
}

// TestWaitsAtAControlPlane applies and deletes a sandbox while its cluster reports its status.
func TestWaitsAtAControlPlane(t *testing.T) {
	p := newControlPlane(t)
	file := p.write("w.yaml", "name: w\nspec: {cluster: demo, virtual: [{name: v, workload: {kind: Deployment, namespace: shop, name: cart}}]}\n")
	gets := 0
	then := func(what func()) {
		gets = 0
		p.before = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/sandboxes/w") {
				if gets++; gets == 2 {
					what()
				}
			}
			return false
		}
	}
	apply := []string{"sandbox", "apply", "-f", file}
	then(func() {})
	p.does(exit.No, "sandbox w is not ready after 10ms: The sandbox was not written to cluster demo yet.", append(apply, "--wait-timeout", "10ms")...)
	then(func() {
		p.observed("w", "", model.Status{Ready: true, Reason: "Ready", Message: "All workloads are available."})
	})
	p.does(exit.OK, "Status:       ready: All workloads are available.", apply...)
	then(func() { p.observed("w", "", model.Status{Reason: crdv1.ReasonResourceFailed, Message: "It is full."}) })
	p.does(exit.No, "sandbox w will not become ready: It is full.", apply...)
	gone := func() {
		p.must(p.store.DeleteSandbox(p.Context(), "acme", "w", false, time.Now().UTC(), p.event()))
	}
	then(gone)
	p.does(exit.No, "sandbox w is being deleted", apply...)
	then(func() {})
	p.does(exit.No, "sandbox w is not deleted after 10ms: The sandbox is being deleted.", "sandbox", "delete", "w", "--wait-timeout", "10ms")
	then(func() { p.finished("w") })
	p.does(exit.OK, "sandbox w is deleted", "sandbox", "delete", "w", "--force")
	then(func() { gone(); p.finished("w") })
	p.does(exit.No, "sandbox w was deleted while this command waited", apply...)
	then(func() {
		gone()
		p.finished("w")
		_, err := p.store.PutSandbox(p.Context(), model.Sandbox{Org: "acme", Name: "w", Cluster: "demo", RoutingKey: "bbbbbbbbbbbbb", Spec: []byte(`{"cluster":"demo"}`)}, p.event())
		p.must(err)
	})
	p.does(exit.No, "sandbox w was deleted and created again while this command waited", apply...)
}

// TestClustersOfAControlPlane registers a cluster, and creates and deletes its tokens.
func TestClustersOfAControlPlane(t *testing.T) {
	p := newControlPlane(t)
	token := strings.TrimSpace(p.does(exit.OK, "cluster new is registered", "cluster", "add", "--name", "new"))
	caller, err := p.store.CallerOf(t.Context(), model.DigestOf(token))
	if err != nil || caller.Principal.Kind != model.KindCluster || caller.Principal.ID != "new" {
		t.Errorf("the token %q is of %+v, %v", token, caller, err)
	}
	p.does(exit.OK, "new    ", "cluster", "list")
	var made v2.ClusterToken
	p.must(json.Unmarshal([]byte(p.does(exit.OK, "is shown only now", "cluster", "token", "create", "--cluster", "new", "-o", "json")), &made))
	if out := p.does(exit.OK, made.ID, "cluster", "token", "list", "--cluster", "new"); strings.Contains(out, *made.Token) || strings.Count(out, "never") != 2 {
		t.Errorf("the tokens are %s", out)
	}
	p.does(exit.OK, "token "+made.ID+" of cluster new is deleted", "cluster", "token", "delete", made.ID, "--cluster", "new")
	if _, err := p.store.CallerOf(t.Context(), model.DigestOf(*made.Token)); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the deleted token: %v", err)
	}
	p.does(exit.OK, "no tokens", "cluster", "token", "list", "--cluster", "demo")

	file := p.write("s.yaml", "name: s\nspec: {cluster: new, virtual: [{name: v, workload: {kind: Deployment, namespace: shop, name: cart}}]}\n")
	p.does(exit.OK, "sandbox s is written", "sandbox", "apply", "--wait=false", "-f", file)
	p.does(exit.No, "sandbox \"s\"", "cluster", "delete", "new")
	p.does(exit.OK, "is being deleted", "sandbox", "delete", "s", "--wait=false")
	p.does(exit.OK, "cluster new is removed\n", "cluster", "delete", "new")
	p.does(exit.No, "cluster \"new\" not found", "cluster", "delete", "new")
	if out := p.does(exit.OK, "", "cluster", "list"); strings.Contains(out, "new ") {
		t.Errorf("the clusters are %s", out)
	}
	if _, err := p.store.CallerOf(t.Context(), model.DigestOf(token)); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the token of the cluster that was removed: %v", err)
	}
}

// TestSidecarsThroughAControlPlane lists the workloads of a real cluster.
func TestSidecarsThroughAControlPlane(t *testing.T) {
	c := market(t, "analyzed", "")
	p := newControlPlaneOf(t, live.Clusters{Operator: "analyzed-operator", Reader: func(context.Context, string, string, model.Author) (client.Reader, error) { return c.Client, nil }})
	analyze := func(args ...string) []string {
		return append([]string{"devmesh", "analyze", "--cluster", "demo", "--namespace", "analyzed"}, args...)
	}
	for _, form := range []string{"table", "json"} {
		golden.Compare(t, "testdata/controlplane-devmesh."+form, p.does(exit.OK, "", analyze("-o", form)...))
	}
	p.does(exit.OK, "Deployment analyzed/cart", analyze("--status", "ok,missing")...)
	p.does(exit.Usage, `status has "good"; use ok, `, analyze("--status", "good")...)
	p.does(exit.No, `"nowhere"`, "devmesh", "analyze", "--cluster", "nowhere")
	if code, _, errs := p.run(t.Context(), "devmesh", "analyze", "--cluster", "demo"); code != exit.Usage || !strings.Contains(errs, "give its URL with --control-plane") {
		t.Errorf("without a control plane: exit code %d\n%s", code, errs)
	}
}
