package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
)

const sandbox = `apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: new-customer}
spec:
  id: k7q2m9x4v1tz8
  customization:
    patches:
      - target: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: customer}
        strategic: {spec: {template: {spec: {containers: [{name: main, image: "customer:fork"}]}}}}
`

// group is about the sandbox.
const group = `apiVersion: signadot.com/v1
kind: SignadotRouteGroup
metadata: {name: all}
spec: {routingKey: everything, sandboxNames: [new-customer]}
`

// shop makes the baseline of the sandbox, once for all tests, in a cluster whose
// operator has this configuration. It returns the arguments with which the program
// finds all that.
func shop(t *testing.T, operator, config string) []string {
	t.Helper()
	_, address := serving(t)
	w := world.Shared(t)
	for _, made := range []struct { // in this order: the namespace first
		object client.Object
		text   string
	}{
		{&corev1.Namespace{}, `metadata: {name: shop}`},
		{&appsv1.Deployment{}, `
metadata: {name: customer, namespace: shop, labels: {app: customer}}
spec:
  selector: {matchLabels: {app: customer}}
  template:
    metadata: {labels: {app: customer}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "customer:1", ports: [{name: http, containerPort: 8080}]}]}`},
		{&corev1.Service{}, `
metadata: {name: customer, namespace: shop}
spec: {selector: {app: customer}, ports: [{name: http, port: 80, targetPort: http}]}`},
	} {
		w.Read(made.object, made.text)
		must(t, client.IgnoreAlreadyExists(w.Client.Create(t.Context(), made.object)))
	}
	w.Namespaces(operator)
	if config != "" {
		w.Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: "cluster-config"}, Data: map[string]string{"cluster_config.yaml": config},
		})
	}
	return []string{"--kubeconfig", as(t, "", ""), "--server", address, "--namespace-of-operator", operator, "dry-run"}
}

// file writes a file.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestADryRunReadsTheClusterAndChangesNothing(t *testing.T) {
	args := shop(t, "dry-plain", "allowedNamespaces: []\n")
	one := file(t, "---\n"+sandbox)
	code, out, errs := ask(t, append(args, "-f", one, "--exit-code")...)
	if code != exit.No || errs != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"create SignadotSandbox new-customer", "create ForkedWorkload shop/", "create RoutingConfig ", "SidecarsReady is True (NoPods)",
		"Deployment shop/customer, key k7q2m9x4v1tz8, port 8080\n    - the baseline\n    + sandbox new-customer (ForkedWorkload shop/", "not ready",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "not known:") {
		t.Errorf("all is known, and it says:\n%s", out)
	}
	if code, out, errs := ask(t, append(args, "-f", one)...); code != exit.OK {
		t.Errorf("without --exit-code: exit code %d\n%s%s", code, out, errs)
	}
}

func TestADryRunGoesByTheOperatorsConfiguration(t *testing.T) {
	powerful := file(t, strings.Replace(sandbox, "spec: {containers:", "spec: {hostPID: true, containers:", 1))
	for name, c := range map[string]struct {
		config, file string
		code         exit.Code
		says         []string
	}{
		"a power that it allows":     {"sandboxes: {patches: {allow: [hostNamespaces]}}", powerful, exit.OK, []string{"create Deployment shop/", "SidecarsReady is True (NoPods)"}},
		"a power that it does not":   {"{}", powerful, exit.InTheWay, []string{"PatchNotAllowed", "hostPID"}},
		"a namespace that it is not": {"allowedNamespaces: [elsewhere]", file(t, sandbox), exit.InTheWay, []string{"NamespaceNotAllowed"}},
		"none": {"", file(t, sandbox), exit.OK, []string{"not known:\n  the operator's configuration was not read", "assumed that it may work in all namespaces",
			"sandboxes.patches.allow"}},
		"one that is not valid": {"sandboxes: {patches: {allow: [everything]}}", powerful, exit.Failed, []string{"is not valid, so that it would not start"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := ask(t, append(shop(t, fmt.Sprintf("dry-config-%d", len(name)), c.config), "-f", c.file)...)
			if code != c.code {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			for _, says := range c.says {
				if strings.Count(out+errs, "("+says+")") > 1 {
					t.Errorf("%s is said more than once:\n%s", says, out)
				}
				if !strings.Contains(out+errs, says) {
					t.Errorf("without %q:\n%s%s", says, out, errs)
				}
			}
		})
	}
}

func TestADryRunTakesEachDocumentOfAFileInOrder(t *testing.T) {
	args := shop(t, "dry-many", "{}")
	text := "# first\n---\n" + sandbox + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n---\n" + group + "---\n# last\n"
	code, out, errs := ask(t, append(args, "-f", file(t, text))...)
	if code != exit.OK {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"create SignadotSandbox new-customer", "create SignadotRouteGroup all", "key k7q2m9x4v1tz8, port 8080", "key everything, port 8080",
		"ConfigMap other of the file was passed over",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q:\n%s", want, out)
		}
	}
	list := `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "signadot.com/v1", "kind": "RoutingConfig", "metadata": {"name": "r"}, "spec": {"sandboxedWorkloads": []}}]}`
	if _, out, errs := ask(t, append(args, "-f", file(t, list))...); !strings.Contains(out, "create RoutingConfig r") {
		t.Errorf("of a List:\n%s%s", out, errs)
	}
}

// A pipeline runs the dry run on each file that a commit touches, as it runs
// "kubectl diff -f": a file with a Deployment alone is no reason to stop, neither is one
// with a Deployment beside a sandbox.
func TestADryRunOfUnrelatedObjectsReportsNoChange(t *testing.T) {
	args := shop(t, "dry-others", "{}")
	const others = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: customer}\n"
	for name, text := range map[string]string{"alone": others, "beside one of ours": others + "---\n" + sandbox} {
		for _, flags := range [][]string{nil, {"--exit-code"}, {"--delete"}} {
			if name != "alone" && flags != nil {
				continue // Something of ours would change.
			}
			code, out, errs := ask(t, append(append(args, "-f", file(t, text)), flags...)...)
			if code != exit.OK || errs != "" {
				t.Errorf("%s, %v: exit code %d\n%s%s", name, flags, code, out, errs)
			}
			for _, want := range []string{"not known:\n", "  ConfigMap other of the file was passed over", "  Deployment customer of the file was passed over"} {
				if !strings.Contains(out, want) {
					t.Errorf("%s, %v: without %q:\n%s", name, flags, want, out)
				}
			}
			if says := strings.Contains(out, "no object would be written") && strings.Contains(out, "no route would change"); says != (name == "alone") {
				t.Errorf("%s, %v: whether anything would change is wrong:\n%s", name, flags, out)
			}
		}
	}
}

func TestARejectionByTheAPIServerHasItsOwnExitCode(t *testing.T) {
	args := shop(t, "dry-refuse", "{}")
	long := file(t, strings.Replace(sandbox, "k7q2m9x4v1tz8", strings.Repeat("k", 300), 1))
	code, out, errs := ask(t, append(args, "-f", long)...)
	if code != exit.InTheWay || !strings.Contains(out, "the API server would refuse:\n  SignadotSandbox new-customer: ") || strings.Contains(out, "nothing wrong") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

func TestADryRunListsUnansweredQuestions(t *testing.T) {
	args := shop(t, "dry-ask", "{}")
	none := file(t, "kind: [\n")
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"more objects than it takes":     {[]string{"-f", file(t, strings.Repeat(group+"---\n", 101))}, "holds more than 100 objects"},
		"no object":                      {[]string{"-f", none}, "does not read as objects"},
		"one without a kind":             {[]string{"-f", file(t, "a: b\n")}, "apiVersion or kind is missing"},
		"a specification":                {[]string{"-f", file(t, "apiVersion: signadot.com/v1\nkind: Sandbox\nname: a\nspec: {forks: []}\n")}, "use the output of switchyard sandbox render"},
		"one without a header":           {[]string{"-f", file(t, "name: a\nspec: {forks: []}\n")}, "use the output of switchyard sandbox render"},
		"an empty file":                  {[]string{"-f", os.DevNull}, "holds no object"},
		"an object that is not there":    {[]string{"--delete", "sandbox", "none"}, "there is no such object"},
		"a kind that cannot be asked":    {[]string{"--delete", "pod", "shop/x"}, "a pod cannot be asked about"},
		"a fork without its namespace":   {[]string{"--delete", "forkedworkload", "x"}, "has to have a namespace"},
		"the same that was not made yet": {[]string{"-f", file(t, sandbox), "--delete"}, "there is no such object"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := ask(t, append(args, c.args...)...)
			if code != exit.Usage || !strings.Contains(errs, c.says) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// The pods of steps look as the operator's Deployment and configuration have them.
func TestADryRunAsksAboutThePodsOfSteps(t *testing.T) {
	args := shop(t, "dry-steps-operator", "{}")
	one := file(t, `apiVersion: signadot.com/v1
kind: SignadotSandbox
metadata: {name: with-steps}
spec:
  id: withsteps
  managedResources:
  - name: db
    pluginName: p
    olm: {preStart: [{name: make, type: ExecUnit, execUnitTemplate: {script: "#!/bin/sh", podTemplate: {metadata: {namespace: no-such-place}, spec: {containers: [{name: main, image: a}]}}}}]}
`)
	gives := func(code exit.Code, says string) {
		t.Helper()
		got, out, errs := ask(t, append(args, "-f", one)...)
		if got != code || !strings.Contains(out, says) {
			t.Errorf("exit code %d, without %q:\n%s%s", got, says, out, errs)
		}
	}
	gives(exit.OK, `whether it would take the pods of steps: deployments.apps "signadot-controller-manager" not found`)
	w := world.Shared(t)
	w.Make(&appsv1.Deployment{}, `
metadata: {name: signadot-controller-manager, namespace: dry-steps-operator}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: manager, image: m, env: [{name: IO_INIT_IMAGE, value: "io-init:1"}, {name: IO_SIDECAR_IMAGE, value: "io-sidecar:1"}]}]}`)
	gives(exit.InTheWay, `Provisioned is False (NamespaceNotFound): Step "make" waits, since its namespace no-such-place does not exist: create it`)
	w.Namespaces("no-such-place")
	w.Accounts("no-such-place", "default")
	gives(exit.OK, "create Resource ")
}
