package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/routeserver/cli"
)

// The whole way of somebody who has a kubeconfig and nothing else: through the
// API server and the kubelet to a pod's port.
func TestAKubeconfigIsEnough(t *testing.T) {
	mark, address := routes(t)
	pod(t, "operator", true, kubelet(t, address))
	config := as(t, "", "")
	args := []string{"--kubeconfig", config, "--namespace-of-operator", "operator"}
	code, out, errs := ask(t, append(args, "table")...)
	if code != cli.ExitOK || !strings.Contains(out, "0 rules at "+mark.Epoch+"/1") {
		t.Errorf("table: exit code %d\n%s%s", code, out, errs)
	}
	// The mark that the operator keeps is read on the same way.
	scheme, err := dryrun.Scheme()
	must(t, err)
	c, err := client.New(cluster, client.Options{Scheme: scheme})
	must(t, err)
	must(t, publish.Epochs{Reader: c, Writer: c, Namespace: "operator"}.Save(t.Context(), publisher.Witness{Mark: mark}))
	code, out, errs = ask(t, append(args, "audit", "verify", "--live")...)
	if code != cli.ExitOK || !strings.Contains(out, "held against the mark that the operator keeps, "+mark.Epoch+"/1") {
		t.Errorf("audit: exit code %d\n%s%s", code, out, errs)
	}
	mark.Chain[0]++
	must(t, publish.Epochs{Reader: c, Writer: c, Namespace: "operator"}.Save(t.Context(), publisher.Witness{Mark: mark}))
	if code, out, errs = ask(t, append(args, "audit", "verify", "--live")...); code != cli.ExitNo {
		t.Errorf("audit of another log: exit code %d\n%s%s", code, out, errs)
	}
}

func TestWhatIsMissingInTheClusterIsSaid(t *testing.T) {
	pod(t, "starting", false, 1)
	pod(t, "unreachable", true, 1)
	scaledToZero(t, "empty")
	for name, c := range map[string]struct {
		kubeconfig, namespace string
		says                  []string
	}{
		"no route server":            {as(t, "", ""), "nowhere", []string{"there is no route server in namespace nowhere", "--namespace-of-operator"}},
		"one that has no pods":       {as(t, "", ""), "empty", []string{"the route server is installed in namespace empty", "has no pod", "kubectl describe deployment/routeserver replicasets -n empty"}},
		"one that may not be seen":   {as(t, "narrow-empty", ""), "empty", []string{"could not be read", "kubectl get deployment/routeserver -n empty", "forbidden"}},
		"one that is not ready":      {as(t, "", ""), "starting", []string{"routeserver-0 is Running", "kubectl describe pods -n starting"}},
		"one whose node is gone":     {as(t, "", ""), "unreachable", []string{"forward a port to pod unreachable/routeserver-0", "pods/portforward"}},
		"somebody without rights":    {as(t, "mallory", ""), "starting", []string{"may not be listed", "ask for the rights to list pods"}},
		"somebody who is not known":  {as(t, "", "wrong"), "starting", []string{"does not know who you are; log in again"}},
		"a kubeconfig that is empty": {os.DevNull, "starting", []string{"there is no kubeconfig with a cluster in it"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := ask(t, "table", "--kubeconfig", c.kubeconfig, "--namespace-of-operator", c.namespace)
			if code != cli.ExitUnavailable || out != "" {
				t.Errorf("exit code %d\n%s", code, out)
			}
			for _, says := range append(c.says, "--server and SWITCHYARD_SERVER name none", "Name a route server (--server host:port)") {
				if !strings.Contains(errs, says) {
					t.Errorf("does not say %q:\n%s", says, errs)
				}
			}
		})
	}
}

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

func TestADryRunReadsTheClusterAndChangesNothing(t *testing.T) {
	_, address := routes(t)
	scheme, err := dryrun.Scheme()
	must(t, err)
	c, err := client.New(cluster, client.Options{Scheme: scheme})
	must(t, err)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	for object, text := range map[client.Object]string{
		&appsv1.Deployment{}: `
metadata: {name: customer, namespace: shop, labels: {app: customer}}
spec:
  selector: {matchLabels: {app: customer}}
  template:
    metadata: {labels: {app: customer}, annotations: {sidecar.signadot.com/inject: "true"}}
    spec: {containers: [{name: main, image: "customer:1", ports: [{name: http, containerPort: 8080}]}]}`,
		&corev1.Service{}: `
metadata: {name: customer, namespace: shop}
spec: {selector: {app: customer}, ports: [{name: http, port: 80, targetPort: http}]}`,
	} {
		must(t, yaml.UnmarshalStrict([]byte(text), object))
		must(t, c.Create(t.Context(), object))
	}
	file := filepath.Join(t.TempDir(), "sandbox.yaml")
	must(t, os.WriteFile(file, []byte("---\n"+sandbox), 0o600))
	args := []string{"--kubeconfig", as(t, "", ""), "--server", address, "dry-run"}
	code, out, errs := ask(t, append(args, "-f", file, "--exit-code")...)
	if code != cli.ExitNo || errs != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"create SignadotSandbox new-customer", "create ForkedWorkload shop/", "create RoutingConfig ",
		"Deployment shop/customer, key k7q2m9x4v1tz8, port 8080\n    - the baseline\n    + sandbox new-customer (ForkedWorkload shop/", "not ready",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q:\n%s", want, out)
		}
	}
	two := filepath.Join(t.TempDir(), "two.yaml")
	must(t, os.WriteFile(two, []byte(sandbox+"\n---\n"+sandbox), 0o600))
	none := filepath.Join(t.TempDir(), "none.yaml")
	must(t, os.WriteFile(none, []byte("kind: [\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"several objects":                {[]string{"-f", two}, "the file holds several objects"},
		"no object":                      {[]string{"-f", none}, "does not read as an object"},
		"an empty file":                  {[]string{"-f", os.DevNull}, "says no apiVersion or no kind"},
		"an object that is not there":    {[]string{"--delete", "sandbox", "none"}, "there is no such object"},
		"a kind that cannot be asked":    {[]string{"--delete", "pod", "shop/x"}, "a pod cannot be asked about"},
		"a fork without its namespace":   {[]string{"--delete", "forkedworkload", "x"}, "has to have a namespace"},
		"the same that was not made yet": {[]string{"-f", file, "--delete"}, "there is no such object"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := ask(t, append(args, c.args...)...)
			if code != cli.ExitUsage || !strings.Contains(errs, c.says) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

func TestTheProgramIsCalledByTwoNames(t *testing.T) {
	for path, want := range map[string]string{"/usr/bin/switchyard": "switchyard", "bin/kubectl-switchyard": "kubectl switchyard"} {
		if got := called(path); got != want {
			t.Errorf("%s is called %q", path, got)
		}
	}
}

func TestTheKeyOfARequestIsFoundAsSidecarsDo(t *testing.T) {
	lines := map[string][]string{"baggage": {"a=b", "sd-routing-key=k1"}}
	key, from := keys(func(name string) []string { return lines[strings.ToLower(name)] })
	if key != "k1" || from != "baggage" {
		t.Errorf("got %q from %q", key, from)
	}
	if key, from := keys(func(string) []string { return nil }); key != "" || from != "" {
		t.Errorf("got %q from %q", key, from)
	}
}
