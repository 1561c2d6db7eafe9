package fields_test

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/fields"
)

func TestAFieldIsShownWhenTheDecisionDependsOnIt(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(fields.EnvFolder, folder)
	group := &crdv1.SignadotRouteGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "g"},
		Spec:       crdv1.SignadotRouteGroupSpec{RoutingKey: "k", SandboxNames: []string{"a"}, SDRevision: 3},
	}
	// A decision that looks at the key and not at the sandboxes.
	fields.Row(t, crdv1.KindRouteGroup, group, func(g *crdv1.SignadotRouteGroup) (any, client.Object) {
		after := g.DeepCopy()
		after.Status.ObservedGeneration = 7
		return g.Spec.RoutingKey, after
	})
	var out bytes.Buffer
	if err := fields.Report(&out, folder, false); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"  spec.routingKey ":           t.Name(),
		"  spec.sandboxNames[] ":       "NO ROW SHOWS IT",
		"  spec.sdRevision ":           "changes nothing",
		"  status.observedGeneration ": t.Name(),
		"  status.conditions[].type ":  "NO ROW SHOWS IT",
	} {
		group := out.String()[strings.Index(out.String(), "SignadotRouteGroup:"):]
		_, rest, ok := strings.Cut(group, line)
		if got, _, _ := strings.Cut(rest, "\n"); !ok || !strings.Contains(got, want) {
			t.Errorf("%q is followed by %q, not by %q", line, got, want)
		}
	}
	if !strings.Contains(out.String(), "fields (target all): short") {
		t.Error("fields that no row shows are not told")
	}
}

// The counts of a runner group are in each of its statuses: a row shows those that it does not leave at zero, and none that
// is only kept.
func TestAZeroShowsNothing(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(fields.EnvFolder, folder)
	before := &crdv1.JobRunnerGroup{Status: crdv1.JobRunnerGroupStatus{Selector: "not empty, so that the counts are in the document"}}
	fields.Row(t, crdv1.KindJobRunnerGroup, before, func(g *crdv1.JobRunnerGroup) (any, client.Object) {
		after := g.DeepCopy()
		after.Status.ReadyReplicas, after.Status.Runners = 2, []crdv1.RunnerPod{{Name: "p", Proof: []byte("x")}}
		return nil, after
	})
	var out bytes.Buffer
	if err := fields.Report(&out, folder, false); err != nil {
		t.Fatal(err)
	}
	_, group, _ := strings.Cut(out.String(), "JobRunnerGroup:")
	for line, want := range map[string]string{
		"  status.readyReplicas ":     t.Name(),
		"  status.replicas ":          "NO ROW SHOWS IT",
		"  status.runners[].proof ":   t.Name(),
		"  status.runners[].version ": "NO ROW SHOWS IT",
	} {
		_, rest, ok := strings.Cut(group, line)
		if got, _, _ := strings.Cut(rest, "\n"); !ok || !strings.Contains(got, want) {
			t.Errorf("%q is followed by %q, not by %q", line, got, want)
		}
	}
}

func TestEveryKindHasFields(t *testing.T) {
	for _, kind := range fields.Kinds() {
		if n := len(fields.Of(kind)); n < 10 {
			t.Errorf("%s has %d fields", kind, n)
		}
	}
}
