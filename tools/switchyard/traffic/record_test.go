package traffic

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

func TestMain(m *testing.M) { world.Main(m) }

// A name that is that of one member, and that of another member's baseline, records nothing.
func TestAnAmbiguousWorkload(t *testing.T) {
	w := world.Shared(t)
	s, ns := &crdv1.SignadotSandbox{}, w.NewNamespace("ambiguous")
	w.Make(s, "metadata: {name: "+ns+"}\nspec:\n  id: alice\n  customization: {patches: ["+
		"{strategic: {}, target: {apiVersion: apps/v1, kind: Deployment, namespace: "+ns+", name: cart}}, {strategic: {}, target: {apiVersion: apps/v1, kind: Deployment, namespace: "+ns+", name: cart}}]}\n"+
		"  externalWorkloads: [{name: web, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: "+ns+", name: web}}]\n"+
		"  virtualWorkloads: [{name: cart, baseline: {apiVersion: apps/v1, kind: Deployment, namespace: "+ns+", name: search}}]")
	dir := filepath.Join(t.TempDir(), "out")
	cfg := recording.Config{Client: w.Client, Ticket: func(context.Context, string, string) (string, error) { return "", errors.New("no ticket in this test") }}
	session := command.New(command.Config{Out: io.Discard, Err: io.Discard})
	err := run(t.Context(), session, cfg, recording.Asked{Sandbox: s.Name, Workload: "cart"}, target{dir: dir})
	if exit.Of(err) != exit.No {
		t.Fatalf("exit code %d: %v", exit.Of(err), err)
	}
	w.Says(err.Error(), "--workload cart is ambiguous", "sandbox "+s.Name, "cart of baseline Deployment "+ns+"/search", "the fork of baseline Deployment "+ns+"/cart", "without --workload")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is created: %v", err)
	}
	for _, name := range []string{"web", "search"} { // of one member
		err := run(t.Context(), session, cfg, recording.Asked{Sandbox: s.Name, Workload: name}, target{dir: dir})
		if err == nil || !strings.Contains(err.Error(), "no ticket") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var left crdv1.TrafficCaptureList
	if w.List(&left, client.InNamespace(ns)); len(left.Items) > 0 {
		t.Errorf("%d captures stay", len(left.Items))
	}
}
