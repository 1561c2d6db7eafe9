package main

import (
	"os"
	"strings"
	"testing"

	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command/exit"
)

// Somebody asks why requests with a key stay at the baseline, and no request has that key
// as sidecars read it.
func TestExplainNamesHeadersThatCannotCarryAKey(t *testing.T) {
	_, address := serving(t)
	for key, says := range map[string]string{
		"a,b":                     `No header can carry this key: it contains ",", which ends a value.`,
		" a":                      `No header can carry this key: it begins with " ", which is no part of a value.`,
		strings.Repeat("k", 8192): "No header can carry this key: it has 8192 bytes, and readers stop at 8191.",
		"a;b":                     `No request can carry this key in baggage: it contains ";", which ends a value.`,
		"k":                       "",
	} {
		_, out, errs := ask(t, "explain", "deployment/shop/cart", "--key", key, "--server", address)
		if !strings.Contains(out, "NEVER_DECLARED") || !strings.Contains(out, says) || says == "" && strings.Contains(out, "can carry") {
			t.Errorf("of the key %.9q it does not say %q:\n%.600s%s", key, says, out, errs)
		}
	}
}

// The whole way of somebody who has a kubeconfig and nothing else: through the
// API server and the kubelet to a pod's port.
func TestAKubeconfigIsEnough(t *testing.T) {
	mark, address := serving(t)
	pod(t, "operator", true, kubelet(t, address))
	config := as(t, "", "")
	args := []string{"--kubeconfig", config, "--namespace-of-operator", "operator"}
	code, out, errs := ask(t, append(args, "table")...)
	if code != exit.OK || !strings.Contains(out, "0 rules at "+mark.Epoch+"/1") {
		t.Errorf("table: exit code %d\n%s%s", code, out, errs)
	}
	// The mark that the operator keeps is read on the same way.
	c := world.Shared(t).Client
	must(t, publish.Epochs{Reader: c, Writer: c, Namespace: "operator"}.Save(t.Context(), publisher.Witness{Mark: mark}))
	code, out, errs = ask(t, append(args, "audit", "verify", "--live")...)
	if code != exit.OK || !strings.Contains(out, "held against the mark that the operator keeps, "+mark.Epoch+"/1") {
		t.Errorf("audit: exit code %d\n%s%s", code, out, errs)
	}
	mark.Chain[0]++
	must(t, publish.Epochs{Reader: c, Writer: c, Namespace: "operator"}.Save(t.Context(), publisher.Witness{Mark: mark}))
	if code, out, errs = ask(t, append(args, "audit", "verify", "--live")...); code != exit.No {
		t.Errorf("audit of another log: exit code %d\n%s%s", code, out, errs)
	}
}

func TestMissingPartsOfTheClusterAreReported(t *testing.T) {
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
		"somebody who is not known":  {as(t, "", "wrong"), "starting", []string{"does not know who you are: it does not take the token or the credentials of the kubeconfig; log in to it again"}},
		"a kubeconfig that is empty": {os.DevNull, "starting", []string{"there is no kubeconfig with a cluster in it"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := ask(t, "table", "--kubeconfig", c.kubeconfig, "--namespace-of-operator", c.namespace)
			if code != exit.Unavailable || out != "" {
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

func TestTheProgramIsCalledByTwoNames(t *testing.T) {
	for path, want := range map[string]string{"/usr/bin/switchyard": "switchyard", "bin/kubectl-switchyard": "kubectl switchyard"} {
		if got := called(path); got != want {
			t.Errorf("%s is called %q", path, got)
		}
	}
}
