package main

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

const ownSandbox = `
name: local-o
spec:
  resources: [{name: db, plugin: db}]
  forks: [{forkOf: {kind: Deployment, namespace: local-shop, name: stock}}]
  local:
  - name: cart
    from: {kind: Deployment, namespace: local-shop, name: cart}
    mappings: [{port: 80, toLocal: "localhost:8080"}]
    env:
    - {name: COLOR, value: "{{ red }}"}
    - {name: POD, operation: delete}
    - {name: PASSWORD, valueFrom: {configMap: {name: settings, key: COLOR}}}
    - {name: DB_HOST, valueFrom: {resource: {name: db, outputKey: make.host}}}
    - {name: STOCK, valueFrom: {fork: {forkOf: {kind: Deployment, namespace: local-shop, name: stock}, expression: "http://{{.Service.Host}}:{{.Service.Port}}"}}}
    - {name: KEY, value: /keys/one}
    files:
    - {path: /etc/cart/cart.yaml, value: "{{ own }}"}
    - {path: keys/one, valueFrom: {secret: {name: db, key: password}}}
    - {path: host, valueFrom: {resource: {name: db, outputKey: make.host}}}
`

// The whole way of env and files of a local workload, from their specification to a process.
func TestALocalProcessHasItsSandboxsEnvironment(t *testing.T) {
	f := newFarSide(t, "local-own")
	f.shop()
	f.mayRead(true)
	var asked spec.Sandbox
	must(t, yaml.UnmarshalStrict([]byte(ownSandbox), &asked))
	compiled, err := compile.Sandbox(compile.Input{Sandbox: asked, Plugins: []spec.Plugin{{Name: "db", Spec: spec.PluginSpec{Runner: spec.Runner{Image: "i"},
		Create: []spec.Step{{Name: "make", Script: "#!/bin/sh", Outputs: []spec.Output{{Name: "host", ValueFromPath: "/host"}}}}}}}})
	must(t, err)
	f.Create(compiled.Sandbox)
	b := f.bench(t)
	lacks := func(says string) {
		t.Helper()
		if code, out, errs := b.does(t.Context(), "sandbox", "get-env", "local-o"); code != exit.No || out != "" || !strings.Contains(errs, says) {
			t.Errorf("exit code %d, without %q:\n%s%s", code, says, out, errs)
		}
	}
	lacks(`.resources.db.objectName" is not known`)
	f.Make(&crdv1.Resource{}, `
metadata: {namespace: local-own, name: local-o-db, labels: {signadot.com/sandbox: local-o}}
spec: {name: db, pluginName: db, outputNamespaces: [local-shop, local-own], olm: {}}
`)
	lacks(`.forks.Deployment/local-shop/stock.service.host" is not known`)
	stock := &crdv1.ForkedWorkload{}
	f.Make(stock, `
metadata: {namespace: local-shop, name: local-o-stock, labels: {signadot.com/sandbox: local-o}}
spec: {baseline: {apiVersion: apps/v1, kind: Deployment, namespace: local-shop, name: stock}}
`)
	stock.Status.RoutingConfig = &crdv1.WorkloadRoutingInfo{Services: []crdv1.ServiceMapping{{From: "stock", To: "local-o-stock-1", Ports: []crdv1.MappedPort{{Port: 9000, TargetPort: 9000}}}}}
	f.Must(f.Client.Status().Update(context.Background(), stock))
	lacks("Secret local-shop/local-o-db, which was not read: it has the outputs of resource db, which is not ready yet")
	// The same Secret is in each namespace: one that the user may read is enough.
	f.Make(&corev1.Secret{}, `{metadata: {namespace: local-own, name: local-o-db}, stringData: {make.host: db.shop}}`)
	f.Grant(f.user(), "local-own", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})

	code, out, errs := b.does(t.Context(), "sandbox", "get-env", "local-o", "--show-source")
	for _, says := range []string{"# the sandbox's local\nCOLOR='{{ red }}'\n", "# ConfigMap settings, key COLOR\nPASSWORD=blue\n", "DB_HOST=db.shop\n",
		"STOCK=http://local-o-stock-1.local-shop.svc:9000\n", "CONFIG=/etc/cart/cart.yaml\n"} {
		if !strings.Contains(out, says) {
			t.Errorf("get-env: exit code %d, without %q:\n%s%s", code, says, out, errs)
		}
	}
	if strings.Contains(out, "POD=") {
		t.Errorf("what is deleted is there:\n%s", out)
	}
	script := `echo "$COLOR $STOCK"; cat "$CONFIG" "$KEY" "$SWITCHYARD_ROOT/host"; stat -c %a "$KEY"`
	code, out, errs = b.does(t.Context(), "run", "--sandbox", "local-o", "--no-connect", "--", "sh", "-c", script)
	if want := "{{ red }} http://local-o-stock-1.local-shop.svc:9000\n{{ own }}p'a $xdb.shop600\n"; code != exit.OK || out != want {
		t.Errorf("run: exit code %d\n%s\n%s\nwant %s", code, out, errs, want)
	}
	// The command line wins.
	if code, out, errs := b.does(t.Context(), "sandbox", "get-env", "local-o", "--env", "COLOR=green"); code != exit.OK || !strings.Contains(out, "COLOR=green\n") {
		t.Errorf("--env: exit code %d\n%s%s", code, out, errs)
	}
	compiled.Sandbox.Annotations[crdv1.AnnotationLocal] = `{"cart": {"containers": [{"name": "mian", "env": [{"name": "A"}]}]}}`
	f.Must(f.Client.Update(context.Background(), compiled.Sandbox))
	lacks(`its env is for container "mian", which the baseline does not have; it has main`)
	compiled.Sandbox.Annotations[crdv1.AnnotationLocal] = `[]`
	f.Must(f.Client.Update(context.Background(), compiled.Sandbox))
	lacks("annotation signadot.com/local of sandbox local-o is not a JSON object")
}

func TestApplyUpdatesLocalEnvironments(t *testing.T) {
	d := newDesk(t, "own-operator")
	const local = `name: local-again
spec:
  local: [{name: cart, from: {kind: Deployment, namespace: local-shop, name: cart}, mappings: [{port: 80, toLocal: "localhost:8080"}]ENV}]
`
	o := &crdv1.SignadotSandbox{ObjectMeta: metaNamed("local-again")}
	for _, env := range []string{`, env: [{name: A, value: one}]`, `, env: [{name: A, value: two}]`, ``} {
		d.does(t, exit.OK, "local-again is written", "sandbox", "apply", "--wait=false", "-f", d.write("local.yaml", strings.Replace(local, "ENV", env, 1)))
		d.Get(o)
		text, has := o.Annotations[crdv1.AnnotationLocal]
		_, value, _ := strings.Cut(env, "value: ")
		if value = strings.TrimSuffix(value, "}]"); has != (env != "") || !strings.Contains(text, value) {
			t.Errorf("with %q: %s", env, text)
		}
	}
}
