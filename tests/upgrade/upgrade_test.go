package upgrade

import (
	"context"
	_ "embed"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/traffic"
)

//go:embed testdata/app.yaml
var app string

func TestAnOperatorIsReplacedUnderLoad(t *testing.T) {
	w := begin(t)
	sidecars := w.sidecars()
	load := []traffic.Want{
		{Key: "lives", Side: traffic.Fork}, {Side: traffic.Baseline},
		{Key: "group", Side: traffic.Fork}, {Key: "nobody", Side: traffic.Baseline},
	}
	a := openAccounts(w)
	a.open("opened-before", earlierValues)
	load = append(load, traffic.Want{Key: "opened-before", Side: traffic.Fork})
	for _, step := range []struct {
		name string
		do   func()
		then func()
	}{
		{"upgrade", func() { w.keepsDefaults(w.installs(), "tls.acceptPlain:") }, func() {
			w.hasAgent("1")
			a.kept("opened-before", earlierValues, values)
			a.open("opened-after-upgrade", values, earlierValues)
			w.moves()
		}},
		{"rollback", func() { w.helm("rollback", "switchyard", "1", "--wait") }, func() {
			w.hasAgent("")
			w.hasNoAgent()
			a.kept("opened-before", earlierValues, values)
			a.close("opened-after-upgrade")
			a.open("opened-after-rollback", earlierValues)
		}},
		{"upgrade-again", func() { w.keepsDefaults(w.installs("--reuse-values")) }, func() { // the older release's values, of which acceptPlain is one
			w.hasAgent("1")
			a.kept("opened-before", earlierValues, values)
			a.kept("opened-after-rollback", values)
		}},
	} {
		before := w.objects()
		w.underLoad(step.name, load, func() {
			step.do()
			w.sandbox("made-after-" + step.name)
			w.isReady("signadotsandbox/lives")
			w.isReady("signadotroutegroup/group")
			w.same(before)
			step.then()
		})
	}
	c := connects(w)
	c.replaced("upgrade", func() { c.installs(c.values("--set-string=podAnnotations.upgrade=again")...) })
	c.replaced("rollback", func() { c.helm("rollback", "switchyard", "--wait") })
	a.close("opened-before")
	a.close("opened-after-rollback")
	a.forgotten()
	if now := w.sidecars(); now != sidecars {
		t.Errorf("the sidecars were to be of the older release all along: %s, then %s", sidecars, now)
	}
	w.uninstallsAndComesBack(a)
	w.uninstallsWithoutAManager(a)
}

// begin installs the older release, and makes the workload and what lives through it all.
func begin(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	if err := clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.helm("install", "switchyard", olderChart(), "--create-namespace", "--wait", "--set=imageTag="+olderTag)
	t.Cleanup(func() {
		if err := cleanObjects(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.kubectl(app, "apply", "-f", "-")
	w.kubectl("", "rollout", "status", "deployment/app", "-n", namespace, "--timeout=180s")
	url, err := demo.ServiceURL(t.Context(), namespace, "app", 80)
	if err != nil {
		t.Fatal(err)
	}
	w.app = url
	w.sandbox("lives")
	w.kubectl(`{"apiVersion":"signadot.com/v1","kind":"SignadotRouteGroup","metadata":{"name":"group"},"spec":{"routingKey":"group","sandboxNames":["lives"]}}`, "apply", "-f", "-")
	w.isReady("signadotroutegroup/group")
	w.forked("group")
	return w
}

// defaultsRecord has the version of the defaults of the installation.
var defaultsRecord = []string{"get", "configmap", "switchyard-routing-log", "-n", "signadot", "-o", "jsonpath={.data.defaults}"}

// keptDefaults are the defaults that an installation of the older release keeps: the notes list each.
var keptDefaults = []string{"keeps its behaviour", "policies.routes:", "tunnel.config.cidrs:", "tunnel.config.socks5Loopback:"}

// keepsDefaults fails the test unless the installation is recorded as an earlier one, and the notes
// after the upgrade list the kept defaults, and more.
func (w *world) keepsDefaults(notes string, more ...string) {
	w.t.Helper()
	if version := w.kubectl("", defaultsRecord...); version != "1" {
		w.t.Errorf("the version of the defaults is %q, want that of an earlier installation", version)
	}
	for _, want := range slices.Concat(keptDefaults, more) {
		if !strings.Contains(notes, want) {
			w.t.Errorf("the notes lack %q:\n%s", want, notes)
		}
	}
}

// hasNewDefaults fails the test unless the installation is recorded as a new one, and its notes
// list no kept defaults.
func (w *world) hasNewDefaults(notes string) {
	w.t.Helper()
	if version := w.kubectl("", defaultsRecord...); version != "2" || strings.Contains(notes, keptDefaults[0]) {
		w.t.Errorf("the version of the defaults is %q, want that of a new installation; the notes:\n%s", version, notes)
	}
}

// token is a cluster token that no control plane has issued.
const token = "sd-cluster-0f1e2d"

// hasAgent fails the test unless so many pods of the agent are ready; empty: it is not installed.
func (w *world) hasAgent(ready string) {
	w.t.Helper()
	if got := w.kubectl("", "get", "deployment", "agent", "-n", "signadot", "--ignore-not-found", "-o", "jsonpath={.status.readyReplicas}"); got != ready {
		w.t.Errorf("%q pods of the agent are ready, want %q", got, ready)
	}
}

// sidecars names the pods of the baseline, and the images of their sidecars.
func (w *world) sidecars() string {
	w.t.Helper()
	out := w.kubectl("", "get", "pods", "-n", namespace, "-l", "app=app,!signadot.com/forked-workload",
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.spec.initContainers[*].image} {.spec.containers[*].image}{"\n"}{end}`)
	if got := strings.Count(out, "route-sidecar:"+olderTag); got != 2 {
		w.t.Fatalf("of the two pods of the baseline %d have a sidecar of the older release:\n%s", got, out)
	}
	return out
}

// uninstallsAndComesBack uninstalls this release and installs it again: requests without a
// key do not notice; users' objects stay, and their forks are deleted and created again. The delete
// step of a sandbox that stays runs before, so no values are left, and their namespace is deleted.
func (w *world) uninstallsAndComesBack(a *accounts) {
	w.t.Helper()
	// Sidecars of this release trust an authority, which the next installation has to have.
	w.restarts()
	a.open("stays", values)
	before := w.objects()
	w.underLoad("uninstall and install", []traffic.Want{{Side: traffic.Baseline}, {Key: "nobody", Side: traffic.Baseline}}, func() {
		w.uninstalls()
		a.wasClosed("stays")
		if left := w.kubectl("", "get", "namespace", values, "--ignore-not-found", "-o", "name"); left != "" {
			w.t.Errorf("%s is left, without values", left)
		}
		side, err := w.sender(nil).Send(w.t.Context(), "lives")
		if err != nil || side != traffic.Baseline {
			w.t.Errorf("a key that was withdrawn is served by %q: %v", side, err)
		}
		w.kubectl("", "delete", "signadotsandbox", "made-after-rollback", "--timeout=20s")
		// As the published command does, with a token; waitSeconds is for the next one.
		w.hasNewDefaults(w.installs("--set=uninstall.waitSeconds=2", "--set=agent.clusterToken="+token))
		w.hasAgent("1")
		if log := w.kubectl("", "logs", "deployment/agent", "-n", "signadot"); !strings.Contains(log, `"state":"foreign"`) || strings.Contains(log, token) {
			w.t.Errorf("the agent does not report that it connects to no control plane, or logs the token:\n%s", log)
		}
		w.isReady("signadotsandbox/lives")
		w.isReady("signadotsandbox/stays")
		w.isReady("signadotroutegroup/group")
		w.forked("lives")
		w.forked("group")
		w.sandbox("made-after-reinstall")
	})
	now := w.objects()
	for name, uid := range before {
		stays := strings.HasPrefix(name, "SignadotSandbox/") || strings.HasPrefix(name, "SignadotRouteGroup/") ||
			strings.HasPrefix(name, "CustomResourceDefinition/") || name == "Deployment/app" || name == "Service/app"
		if stays && !strings.Contains(name, "made-after-rollback") && now[name] != uid {
			w.t.Errorf("%s did not stay: it was %s and is %q", name, uid, now[name])
		}
	}
}

// authority is what stays of the chart: sidecars that run trust it.
const authority = "secret/webhook-server-cert"

// uninstalls this release, and fails the test when something of it, or something that it
// made, is left.
func (w *world) uninstalls() {
	w.t.Helper()
	w.t.Log(w.helm("uninstall", "switchyard", "--wait"))
	for what, args := range map[string][]string{
		"what was made for sandboxes": {"forkedworkloads,routingconfigs", "-A"},
		"forks":                       {"deployments,services", "-A", "-l", "signadot.com/forked-workload"},
		"the chart":                   {"all,configmaps,secrets,serviceaccounts,leases,roles,rolebindings", "-n", "signadot", "-l", "app.kubernetes.io/managed-by=Helm"},
	} {
		left := w.kubectl("", append([]string{"get", "-o", "name"}, args...)...)
		if left = strings.TrimSpace(left); left != "" && left != authority {
			w.t.Errorf("these are left of %s:\n%s", what, left)
		}
	}
	if left := w.kubectl("", "get", "clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name"); strings.Contains(left, "signadot") {
		w.t.Errorf("something of the chart is left:\n%s", left)
	}
	w.hasNoAgent()
}

// uninstallsWithoutAManager uninstalls this release when nobody can take anything away in
// order: what people made stays all the same, and they can delete it. Delete steps do not run, and
// the values that they need stay in their namespace.
func (w *world) uninstallsWithoutAManager(a *accounts) {
	w.t.Helper()
	a.open("stays", values)
	w.underLoad("uninstall without a manager", []traffic.Want{{Side: traffic.Baseline}, {Key: "nobody", Side: traffic.Baseline}}, func() {
		w.kubectl("", "scale", "deployment/signadot-controller-manager", "-n", "signadot", "--replicas=0")
		w.kubectl("", "wait", "pod", "-n", "signadot", "-l", "control-plane=controller-manager", "--for=delete", "--timeout=60s")
		w.uninstalls()
		a.kept("stays", values)
		w.kubectl("", "delete", "signadotsandbox/lives", "signadotsandbox/stays", "signadotroutegroup/group", "--timeout=20s")
	})
	w.kubectl("", "delete", "namespace", values, "--timeout=60s")
}
