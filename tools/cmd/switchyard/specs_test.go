package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
)

const databasePlugin = `
name: db@VERSION
spec:
  description: a database
  runner: {image: "db:1"}
  create:
  - name: make
    inputs: [{name: size, valueFromSandbox: true}]
    script: "@{embed: make.sh}"
    outputs: [{name: host, valueFromPath: /tmp/host}]
`

const databaseSandbox = `
name: "@{name}"
spec:
  description: mine
  ttl: {duration: 2d}
  labels: {team: shop}
  resources: [{name: store, plugin: db, params: {size: small}}]
  forks:
  - forkOf: {kind: Deployment, namespace: shop, name: cart}
    customizations:
      env: [{name: HOST, valueFrom: {resource: {name: store, outputKey: make.host}}}]
  defaultRouteGroup: {endpoints: [{name: cart, target: "http://cart.shop.svc:80"}]}
`

// desk is a folder with files, and the command line with a kubeconfig.
type desk struct {
	*world.World
	dir  string
	args []string
}

func newDesk(t *testing.T, operator string) desk {
	t.Helper()
	d := desk{World: world.Shared(t), dir: t.TempDir()}
	d.Make(&corev1.Namespace{}, "metadata: {name: "+operator+"}")
	d.args = []string{"--kubeconfig", as(t, "", ""), "--namespace-of-operator", operator}
	d.write("make.sh", "#!/bin/sh\necho made\n")
	return d
}

// write writes a file, and returns its path.
func (d desk) write(name, text string) string {
	d.Helper()
	path := filepath.Join(d.dir, name)
	d.Must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// does runs a command that ends with a code and says some words.
func (d desk) does(t *testing.T, code exit.Code, says string, args ...string) string {
	t.Helper()
	got, out, errs := ask(t, append(args, d.args...)...)
	if got != code || !strings.Contains(out+errs, says) {
		t.Errorf("%s: exit code %d, not %d, or without %q\n%s%s", strings.Join(args, " "), got, code, says, out, errs)
	}
	return out
}

// The whole way of somebody who has files and a kubeconfig, and no control plane.
func TestSandboxesAndPluginsFromTheirFiles(t *testing.T) {
	d := newDesk(t, "specs-operator")
	plugin := func(version string) string {
		return d.write("db-"+version+".yaml", strings.ReplaceAll(databasePlugin, "VERSION", version))
	}
	file := d.write("sandbox.yaml", databaseSandbox)
	apply := []string{"sandbox", "apply", "-f", file, "--set", "name=specs-a", "--wait=false"}

	d.does(t, exit.Usage, `sandbox.yaml:7: spec.resources[0].plugin is "db", and there is no such plugin`, apply...)
	d.does(t, exit.OK, "resource plugin db is stored (version 1.0.0)", "resourceplugin", "apply", "-f", plugin("1.0.0"))
	d.does(t, exit.OK, "resource plugin db exists already, unchanged (version 1.0.0)", "resourceplugin", "apply", "-f", plugin("1.0.0"))
	d.write("make.sh", "#!/bin/sh\necho other\n")
	d.does(t, exit.No, "resource plugin db@1.0.0 exists with other content, and a version never changes: give it another version in its name, such as db@1.0.1",
		"resourceplugin", "apply", "-f", plugin("1.0.0"))

	d.does(t, exit.OK, "sandbox specs-a is written, with the routing key specs-a", apply...)
	d.does(t, exit.OK, "resource plugin db is stored (version 1.1.0)", "resourceplugin", "apply", "-f", plugin("1.1.0"))
	d.does(t, exit.OK, "", apply...) // It keeps the version that it has.
	if _, _, errs := ask(t, append(apply, d.args...)...); !strings.Contains(errs, `sandbox.yaml:7: spec.resources[0].plugin is "db" without a version, so the resource keeps version 1.0.0; the newest is 1.1.0: write db@1.1.0 to use it`) {
		t.Errorf("a newer version is not noted:\n%s", errs)
	}
	d.does(t, exit.No, "resource plugin db@1.0.0 is not deleted: the resource plugin is in use by resource store of sandbox specs-a", "resourceplugin", "delete", "db@1.0.0")
	d.does(t, exit.OK, "db    1.1.0", "resourceplugin", "list")
	if out := d.does(t, exit.OK, "USED BY  DESCRIPTION", "resourceplugin", "list", "-A"); strings.Index(out, "1.1.0") > strings.Index(out, "1.0.0") {
		t.Errorf("the highest version is not first:\n%s", out)
	}
	d.does(t, exit.OK, "    sandbox: specs-a", "resourceplugin", "get", "db@1.0.0")
	d.does(t, exit.No, "there is no resource plugin queue", "resourceplugin", "get", "queue")

	// While it is being deleted nothing is written.
	there := &crdv1.SignadotSandbox{}
	d.Must(d.Client.Get(t.Context(), client.ObjectKey{Name: "specs-a"}, there))
	there.Annotations[crdv1.AnnotationAuthor] = crdv1.Author{User: "dora"}.String()
	there.Finalizers = []string{"example.com/hold"}
	d.Must(d.Client.Update(t.Context(), there))
	d.does(t, exit.OK, "Author:       dora\n", "sandbox", "get", "specs-a")
	d.does(t, exit.OK, `"author": "dora"`, "sandbox", "get", "specs-a", "-o", "json")
	d.does(t, exit.OK, "is being deleted", "sandbox", "delete", "specs-a", "--wait=false")
	d.does(t, exit.No, "sandbox specs-a is being deleted, and nothing was written", apply...)
	d.Must(d.Client.Get(t.Context(), client.ObjectKey{Name: "specs-a"}, there))
	there.Finalizers = nil
	d.Must(d.Client.Update(t.Context(), there))
	d.does(t, exit.OK, "sandbox specs-a is written", apply...)

	d.does(t, exit.OK, "", "sandbox", "delete", "-f", file, "--set", "name=specs-a")
	bare := d.write("bare.yaml", strings.ReplaceAll(strings.ReplaceAll(databasePlugin, "@VERSION", ""), "VERSION", ""))
	d.does(t, exit.No, "there is no resource plugin db", "resourceplugin", "delete", "-f", bare) // not the highest
	d.does(t, exit.OK, "resource plugin db (version 1.1.0) is deleted\n", "resourceplugin", "delete", "db")
	d.does(t, exit.OK, "resource plugin db (version 1.0.0) is deleted\n", "resourceplugin", "delete", "-f", plugin("1.0.0"))
	d.does(t, exit.OK, "no resource plugins", "resourceplugin", "list")
	d.does(t, exit.No, "there is no resource plugin db", "resourceplugin", "delete", "db")
}

func TestASandboxIsShownAsItIs(t *testing.T) {
	d := newDesk(t, "shown-operator")
	file := d.write("sandbox.yaml", databaseSandbox)
	d.does(t, exit.OK, "is stored (version 0.0.0)", "resourceplugin", "apply", "-f", d.write("db.yaml", strings.ReplaceAll(databasePlugin, "@VERSION", "")))
	// Somebody else made it, under another key: that stays, and so does what is not ours.
	d.Make(&crdv1.SignadotSandbox{}, `{metadata: {name: shown, annotations: {theirs: x, signadot.com/ttl-offset-from: updatedAt}}, spec: {id: k3y}}`)
	apply := []string{"sandbox", "apply", "-f", file, "--set", "name=shown"}
	d.does(t, exit.No, "sandbox shown is not ready after 10ms: the operator has not reported on it yet", append(apply, "--wait-timeout", "10ms")...)

	o := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "shown"}}
	d.Get(o)
	if o.Spec.ID != "k3y" || o.Annotations["theirs"] != "x" || o.Annotations[crdv1.AnnotationTTLFrom] != "" || o.Spec.ManagedResources[0].PluginName != "db" {
		t.Errorf("%v %+v", o.Annotations, o.Spec)
	}
	ready := func(status, reason, message string) {
		d.Get(o)
		o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation}}
		o.Status.ManagedResources = []crdv1.SandboxResourceStatus{{Name: "store", Ready: status == "True", Failed: reason == "ResourceFailed"}}
		d.Must(d.Client.Status().Update(t.Context(), o))
	}
	ready("False", "ResourceFailed", "it failed")
	d.does(t, exit.No, "sandbox shown will not become ready: it failed", apply...)
	d.does(t, exit.OK, "store of plugin db, failed", "sandbox", "get", "shown")
	ready("True", "Ready", "All desired workloads are available.")
	out := d.does(t, exit.OK, "Status:", apply...)
	moments := strings.NewReplacer(
		o.CreationTimestamp.Local().Format("2006-01-02 15:04:05 MST"), "CREATED",
		o.CreationTimestamp.Add(48*time.Hour).Local().Format("2006-01-02 15:04:05 MST"), "ENDS")
	d.Get(o)
	updated, err := time.Parse(time.RFC3339, o.Annotations[crdv1.AnnotationUpdatedAt])
	d.Must(err)
	out = strings.NewReplacer("Changed:      "+updated.Local().Format("2006-01-02 15:04:05 MST"), "Changed:      CHANGED").Replace(out)
	want := `Name:         shown
Routing key:  k3y
Description:  mine
Created:      CREATED
Changed:      CHANGED
Ends:         ENDS
Workload:     fork of Deployment/shop/cart
Resource:     store of plugin db, ready
Endpoint:     cart http://cart.shop.svc:80
Status:       ready: All desired workloads are available.
`
	if diff := cmp.Diff(want, moments.Replace(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var listed []struct {
		Name   string `json:"name"`
		Labels map[string]string
		Status struct{ Ready bool }
	}
	d.Must(json.Unmarshal([]byte(d.does(t, exit.OK, "", "sandbox", "list", "-o", "json")), &listed))
	for _, one := range listed {
		if one.Name == "shown" && (!one.Status.Ready || one.Labels["team"] != "shop") {
			t.Errorf("%+v", one)
		}
	}
	// A finalizer holds it, as the operator's does.
	d.Get(o)
	o.Finalizers = []string{"example.com/held"}
	d.Must(d.Client.Update(t.Context(), o))
	d.does(t, exit.No, "sandbox shown is not deleted after 10ms: ", "sandbox", "delete", "shown", "--wait-timeout", "10ms")
	d.Get(o)
	o.Finalizers = nil
	d.Must(d.Client.Update(t.Context(), o))
	d.Gone(o)
	d.does(t, exit.No, "there is no sandbox shown", "sandbox", "get", "shown")
	d.does(t, exit.No, "there is no sandbox shown", "sandbox", "delete", "shown")
}

// What get prints is a file that can be applied.
func TestOutputOfGetCanBeApplied(t *testing.T) {
	d := newDesk(t, "again-operator")
	d.does(t, exit.OK, "", "resourceplugin", "apply", "-f", d.write("db.yaml", strings.ReplaceAll(databasePlugin, "@VERSION", "")))
	d.does(t, exit.OK, "resource plugin db exists already, unchanged (version 0.0.0)", "resourceplugin", "apply", "-f",
		d.write("db-again.yaml", d.does(t, exit.OK, "", "resourceplugin", "get", "db", "-o", "yaml")))
	d.does(t, exit.OK, "", "sandbox", "apply", "-f", d.write("sandbox.yaml", databaseSandbox), "--set", "name=again", "--wait=false")
	was := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	d.Get(was)
	for _, form := range []string{"yaml", "json"} {
		text := d.does(t, exit.OK, "", "sandbox", "get", "again", "-o", form)
		d.does(t, exit.OK, "sandbox again is written", "sandbox", "apply", "-f", d.write("again."+form, text), "--wait=false")
		is := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
		d.Get(is)
		was.Annotations[crdv1.AnnotationUpdatedAt] = is.Annotations[crdv1.AnnotationUpdatedAt]
		if diff := cmp.Diff([]any{was.Spec, was.Annotations}, []any{is.Spec, is.Annotations}); diff != "" {
			t.Errorf("%s (-was +is):\n%s", form, diff)
		}
	}
	printed := d.does(t, exit.OK, "", "sandbox", "get", "again", "-o", "yaml")
	for change, says := range map[string]string{
		"description: mine": `has the field "description" beside spec with another value than in spec; change it in spec`,
		"  team: shop":      `has the field "labels" beside spec with another value than in spec; change it in spec`,
		"  name: store":     `has the field "resources" beside spec with another value than in spec; change it in spec`,
	} {
		changed := strings.Replace(printed, "\n"+change, "\n"+change+"-2", 1)
		d.does(t, exit.Usage, says, "sandbox", "apply", "-f", d.write("changed.yaml", changed), "--wait=false")
	}

	// After a change by another client the specification is not known.
	was = &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	d.Get(was)
	was.Annotations[crdv1.AnnotationTTL] = "9d"
	d.Must(d.Client.Update(t.Context(), was))
	text := d.does(t, exit.OK, "note: the specification of again is not known", "sandbox", "get", "again", "-o", "yaml")
	d.does(t, exit.Usage, "is the output of a get command without a spec", "sandbox", "apply", "-f", d.write("again.yaml", text), "--wait=false")
}

const pluginlessSandbox = "name: NAME\nspec: {labels: {feature: FEATURE}, forks: [{forkOf: {kind: Deployment, namespace: shop, name: cart}}]}\n"

const routeGroup = `#!/usr/bin/env -S switchyard routegroup apply -f
name: rg-team
spec:
  cluster: demo
  description: two sandboxes, tested together
  match:
    any:
    - label: {key: feature, value: "rg-*"}
    - all: [{label: {key: feature, value: other}}, {label: {key: team, value: shop}}]
  endpoints: [{name: front, target: "http://frontend.shop.svc:8080"}]
  ttl: {duration: 2d}
`

// A route group unites the sandboxes that match when it is applied.
func TestRouteGroupsFromTheirFiles(t *testing.T) {
	d := newDesk(t, "groups-operator")
	file := d.write("group.yaml", routeGroup)
	apply := []string{"routegroup", "apply", "-f", file, "--wait=false"}
	sandbox := func(name, feature string) {
		text := strings.NewReplacer("NAME", name, "FEATURE", feature).Replace(pluginlessSandbox)
		d.does(t, exit.OK, "", "sandbox", "apply", "-f", d.write(name+".yaml", text), "--wait=false")
	}
	sandbox("rg-other", "other")
	d.does(t, exit.Usage, "group.yaml:6: spec.match matches no sandbox of the cluster; their labels are feature=other", apply...)
	sandbox("rg-a", "rg-1")
	d.Make(&crdv1.SignadotSandbox{}, "{metadata: {name: rg-b, labels: {team: shop, feature: other}}, spec: {id: rg-b}}") // made with kubectl
	_, out, errs := ask(t, append(apply, d.args...)...)
	for _, line := range []string{
		"route group rg-team has the sandboxes that match now: rg-a, rg-b\n",
		"note: sandboxes that match later are not added; apply the file again to add them\n",
		"group.yaml:11: spec.ttl has no effect; without a control plane a route group lives until it is deleted\n",
	} {
		if strings.Count(errs, line) != 1 {
			t.Errorf("without %q: %s%s", line, out, errs)
		}
	}
	o := &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: "rg-team"}}
	d.Get(o)
	if diff := cmp.Diff(crdv1.SignadotRouteGroupSpec{RoutingKey: "rg-team", SandboxNames: []string{"rg-a", "rg-b"}}, o.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// Applied again it has those that match then, and what get prints can be applied.
	o.Spec.RoutingKey = "k3y-of-group"
	o.Spec.TrafficManagerMatches = []crdv1.MiddlewareMatch{{Instance: crdv1.MiddlewareInstance{Middleware: "override"}}}
	d.Must(d.Client.Update(t.Context(), o))
	d.does(t, exit.OK, "note: the specification of rg-team is not known", "routegroup", "get", "rg-team", "-o", "yaml")
	d.does(t, exit.OK, "", "sandbox", "delete", "rg-a")
	sandbox("rg-c", "rg-3")
	d.does(t, exit.OK, "no longer in it: rg-a\n", apply...)
	again := d.write("again.yaml", d.does(t, exit.OK, "  endpoints:", "routegroup", "get", "rg-team", "-o", "yaml"))
	d.does(t, exit.OK, "route group rg-team is written, with the routing key k3y-of-group", "routegroup", "apply", "-f", again, "--wait=false")
	d.Get(o)
	if strings.Join(o.Spec.SandboxNames, " ") != "rg-b rg-c" || len(o.Spec.TrafficManagerMatches) != 1 {
		t.Errorf("%+v", o.Spec)
	}

	o.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", Message: "All are ready.", ObservedGeneration: o.Generation}}
	o.Status.ReadySandboxes, o.Status.TotalSandboxes = 2, 2
	d.Must(d.Client.Status().Update(t.Context(), o))
	out = d.does(t, exit.OK, "", "routegroup", "apply", "-f", file)
	for _, line := range []string{"Description:  two sandboxes, tested together\n", "Sandboxes:    rg-b, rg-c\n", "Endpoint:     front http://frontend.shop.svc:8080\n", "Status:       ready: All are ready.\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("without %q:\n%s", line, out)
		}
	}
	d.does(t, exit.OK, "rg-team  k3y-of-group  yes    Ready   2 of 2 ready", "routegroup", "list")

	d.does(t, exit.Usage, "describes a route group, not a sandbox; use switchyard routegroup", "sandbox", "apply", "-f", file)
	d.does(t, exit.Usage, "describes a sandbox, not a route group; use switchyard sandbox", "routegroup", "apply", "-f", filepath.Join(d.dir, "rg-c.yaml"))
	d.does(t, exit.OK, "route group rg-team is deleted", "routegroup", "delete", "-f", file)
	d.does(t, exit.No, "there is no route group rg-team", "routegroup", "get", "rg-team")
	d.does(t, exit.OK, "no route groups", "routegroup", "list")
}

func TestMissingPermissionsAreReported(t *testing.T) {
	d := newDesk(t, "strict-operator")
	d.Grant("reader", "", rbacv1.PolicyRule{APIGroups: []string{"signadot.com"}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"get", "list"}})
	d.args[1] = as(t, "reader", "")
	file := d.write("sandbox.yaml", databaseSandbox)
	d.does(t, exit.Failed, "list ConfigMaps in namespace strict-operator, where resource plugins are kept: ", "sandbox", "apply", "-f", file, "--set", "name=strict")
	plain := d.write("plain.yaml", "name: strict\nspec: {forks: [{forkOf: {kind: Deployment, namespace: shop, name: cart}}]}\n")
	d.does(t, exit.Failed, "create SignadotSandbox strict: signadotsandboxes.signadot.com is forbidden", "sandbox", "apply", "-f", plain)
	d.does(t, exit.Usage, "spec.fork is not a field; did you mean \"forks\"?", "sandbox", "render", "-f", d.write("bad.yaml", "name: a\nspec: {fork: []}\n"))
	d.does(t, exit.Usage, `name is "a/b"; a name has lower-case letters`, "sandbox", "apply", "-f", d.write("name.yaml", "name: a/b\nspec: {}\n"))
	d.does(t, exit.Usage, "give -f FILE", "sandbox", "apply")
	d.does(t, exit.Usage, "give a name or -f FILE", "sandbox", "delete")
	d.does(t, exit.Usage, "open nowhere.yaml: no such file", "sandbox", "apply", "-f", "nowhere.yaml")
	d.does(t, exit.Usage, "--set a has no value", "sandbox", "apply", "-f", plain, "--set", "a")
	d.does(t, exit.OK, "kind: SignadotSandbox", "sandbox", "render", "-f", plain)
	if o := (&crdv1.SignadotSandboxList{}); d.Client.List(t.Context(), o, client.MatchingFields{"metadata.name": "strict"}) != nil || len(o.Items) > 0 {
		t.Error("something was written")
	}
}
