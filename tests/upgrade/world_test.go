package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
)

// namespace is that of the workload.
const namespace = "upgrade"

// perSecond is how many requests each kind of caller sends.
const perSecond = 100

// world is the cluster as the test sees it.
type world struct {
	t *testing.T
	// app is the URL of the workload.
	app string
	// moved are the forks' Services for a Service that moved, which the older release deletes.
	moved []string
}

// kubectl runs kubectl and fails the test when it does.
func (w *world) kubectl(stdin string, args ...string) string {
	w.t.Helper()
	out, err := demo.Kubectl(w.t.Context(), stdin, args...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// helm runs helm and fails the test when it does.
func (w *world) helm(args ...string) string {
	w.t.Helper()
	began := time.Now()
	out, err := exec.CommandContext(w.t.Context(), "helm", append(args, "--namespace=signadot", "--timeout=300s")...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	w.t.Logf("helm %s: %.0f s", args[0], time.Since(began).Seconds())
	return string(out)
}

// installs this release, or upgrades to it, with these arguments for helm, and returns the notes.
func (w *world) installs(more ...string) string {
	w.t.Helper()
	images, err := demo.ChartValues()
	if err != nil {
		w.t.Fatal(err)
	}
	args := []string{"upgrade", "--install", "--wait", "switchyard", filepath.Join(root, "charts", "operator")}
	return w.helm(slices.Concat(args, images, more)...)
}

// sandbox makes a sandbox of the workload, and waits until it is ready and its fork serves
// its key, which is its name.
func (w *world) sandbox(name string) {
	w.t.Helper()
	w.kubectl(fmt.Sprintf(`{"apiVersion":"signadot.com/v1","kind":"SignadotSandbox","metadata":{"name":%[1]q},
"spec":{"id":%[1]q,"name":%[1]q,"customization":{"patches":[{
  "target":{"apiVersion":"apps/v1","kind":"Deployment","namespace":%[2]q,"name":"app"},
  "strategic":{"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"app","env":[{"name":"PODINFO_UI_MESSAGE","value":"fork"}]}]}}}}}]}}}`,
		name, namespace), "apply", "-f", "-")
	w.isReady("signadotsandbox/" + name)
	w.forked(name)
}

// isReady waits until an object is ready.
func (w *world) isReady(object string) {
	w.t.Helper()
	w.kubectl("", "wait", object, "--for=condition=Ready", "--timeout=90s")
}

// forked waits until the fork serves a key, as it has to as soon as Ready says so.
func (w *world) forked(key string) {
	w.t.Helper()
	sender := w.sender(http.DefaultTransport)
	for range 20 {
		if side, err := sender.Send(w.t.Context(), key); err != nil || side != traffic.Fork {
			w.t.Errorf("key %s, which is ready, is served by %q: %v", key, side, err)
			return
		}
	}
}

// sender calls the workload.
func (w *world) sender(transport http.RoundTripper) traffic.Sender {
	return traffic.Sender{URL: w.app, Client: &http.Client{Timeout: 10 * time.Second, Transport: transport}, Judge: traffic.Podinfo}
}

// underLoad runs body while requests go to the workload, over connections that are kept and
// over new ones, and fails the test unless each was served by the right side.
func (w *world) underLoad(what string, wants []traffic.Want, body func()) {
	w.t.Helper()
	stop, done := make(chan struct{}), make(chan *traffic.Ledger, 2)
	kept, fresh := http.DefaultTransport.(*http.Transport).Clone(), http.DefaultTransport.(*http.Transport).Clone()
	kept.MaxIdleConnsPerHost, fresh.DisableKeepAlives = 16, true
	for _, transport := range []*http.Transport{kept, fresh} {
		go func() { done <- w.sender(transport).Rate(w.t.Context(), perSecond, wants, stop) }()
	}
	defer func() {
		close(stop)
		for _, kind := range []string{"one kind of caller", "the other"} {
			ledger := <-done
			w.t.Logf("%s, %s: %s", what, kind, ledger)
			if !ledger.Clean() {
				w.t.Errorf("%s: requests failed or were served by the wrong side", what)
			}
		}
		if w.t.Failed() {
			busy, _ := os.ReadFile("/proc/loadavg")
			w.t.Logf("the machine's load: %s\n%s", busy, w.kubectl("", "get", "pods", "-n", namespace, "-o", "wide"))
			w.t.Log(w.kubectl("", "logs", "-n", namespace, "-l", "app=app,!signadot.com/forked-workload", "-c", "sd-sidecar", "--tail=60", "--prefix"))
		}
	}()
	body()
}

// moves changes the selector of the Service moved, and waits until the statuses of the forks, and so
// their facts, list it as former: the older release has to read these. It deletes the forks' Services
// for it, which this release keeps.
func (w *world) moves() {
	w.t.Helper()
	w.kubectl("", "patch", "service", "moved", "-n", namespace, "-p", `{"spec":{"selector":{"app":"elsewhere"}}}`)
	for _, of := range strings.Fields(w.kubectl("", "get", "forkedworkloads", "-n", namespace, "-o", "name")) {
		w.kubectl("", "wait", of, "-n", namespace, "--for=jsonpath={.status.routingConfig.formerServices[0]}=moved", "--timeout=60s")
	}
	services := w.kubectl("", "get", "services", "-n", namespace, "-o",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.annotations.signadot\.com/baseline-service}{"\n"}{end}`)
	for line := range strings.Lines(services) {
		if name, of, _ := strings.Cut(strings.TrimSpace(line), " "); of == namespace+"/moved" {
			w.moved = append(w.moved, name)
		}
	}
	if len(w.moved) == 0 {
		w.t.Errorf("no fork has a Service for it:\n%s", services)
	}
}

// restarts restarts the workload, so that its pods have sidecars of this release.
func (w *world) restarts() {
	w.t.Helper()
	w.kubectl("", "rollout", "restart", "deployment/app", "-n", namespace)
	if _, err := demo.Kubectl(w.t.Context(), "", "rollout", "status", "deployment/app", "-n", namespace, "--timeout=180s"); err != nil {
		w.t.Log(w.kubectl("", "describe", "pods", "-n", namespace, "-l", "app=app,!signadot.com/forked-workload"))
		w.t.Fatalf("the workload does not restart: %v", err)
	}
}

// objects returns the UIDs of what must outlive each step: all of ours, and what forks are
// made of.
func (w *world) objects() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, args := range [][]string{
		{"signadotsandboxes,signadotroutegroups,routingconfigs"},
		{"forkedworkloads,deployments,services", "-n", namespace},
		{"crds"},
	} {
		lines := w.kubectl("", append([]string{"get", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid}{"\n"}{end}`}, args...)...)
		for line := range strings.Lines(lines) {
			if name, uid, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !slices.Contains(w.moved, name) {
				out[name] = uid
			}
		}
	}
	return out
}

// same fails the test when an object of before is not there, or is another one.
func (w *world) same(before map[string]string) {
	w.t.Helper()
	now := w.objects()
	for name, uid := range before {
		if now[name] != uid {
			w.t.Errorf("%s was %s and is %q", name, uid, now[name])
		}
	}
}

// clean takes away what an earlier run, or another test, has left of the operator and of
// this test. Values that are left keep their namespace. Applications of other tests leave the
// node's processors to this one; those tests apply them again.
func clean(ctx context.Context) error {
	for _, other := range []string{"hotrod", "shop"} {
		there, err := demo.Kubectl(ctx, "", "get", "deployments", "-n", other, "-o", "name")
		if err == nil && there != "" {
			_, err = demo.Kubectl(ctx, "", "scale", "deployment", "-n", other, "--all", "--replicas=0")
		}
		if err != nil {
			return err
		}
	}
	if out, err := exec.CommandContext(ctx, "helm", "uninstall", "switchyard", "--namespace=signadot", "--ignore-not-found", "--wait", "--timeout=300s").CombinedOutput(); err != nil {
		return fmt.Errorf("uninstall what is there: %w\n%s", err, out)
	}
	_, gone := demo.Kubectl(ctx, "", "delete", "namespace", values, "--ignore-not-found", "--timeout=60s")
	return errors.Join(cleanObjects(ctx), gone)
}

// cleanObjects takes the sandboxes and the workload away.
func cleanObjects(ctx context.Context) (err error) {
	if _, there := demo.Kubectl(ctx, "", "get", "crd", "signadotsandboxes.signadot.com"); there == nil {
		_, err = demo.Kubectl(ctx, "", "delete", "signadotroutegroups,signadotsandboxes", "--all", "--timeout=90s")
	}
	_, gone := demo.Kubectl(ctx, "", "delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s")
	return errors.Join(err, gone)
}
