package chart

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/delivery"
)

// none is a write without the annotation.
const none = "-"

// numbered returns an object of the operator with a number of the control plane's version.
func numbered(kind, name, generation string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	o.SetAPIVersion("signadot.com/v1")
	o.SetKind(kind)
	o.SetName(name)
	if kind == "SignadotSandbox" {
		o.Object["spec"] = map[string]any{"id": name}
	} else {
		o.SetNamespace("shop")
		o.Object["spec"] = map[string]any{"name": name, "baseline": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "cart"}}
	}
	if generation != none {
		o.SetAnnotations(map[string]string{"switchyard.dev/generation": generation})
	}
	return o
}

// TestTheAgentsOlderWritesAreRefused updates objects as the agent, at a real API server with the chart's
// policies.
func TestTheAgentsOlderWritesAreRefused(t *testing.T) {
	s := startAPIServer(t, "shop")
	// No manager answers the webhooks of authors here.
	s.helm(t, "sandboxes: {authors: {ask: false}}", "install", "operator", chartDir, "--values=-")
	agent := s.as(t, "signadot-agent")
	s.eventually(t, "the policy is enforced", func() error {
		err := agent.Create(t.Context(), numbered("SignadotSandbox", "first", "x"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "is not a number") {
			return fmt.Errorf("a write of no number: %w", errors.Join(err, errors.New("not refused")))
		}
		return nil
	})
	const older, lacks, wrong = delivery.LaterWrite, "the write lacks annotation", "is not a number"
	for n, c := range []struct{ before, after, refused string }{
		{none, none, ""}, {none, "0", ""}, {none, "7", ""},
		{"7", "7", ""}, {"7", "8", ""}, {"9", "10", ""}, {"99", "100", ""}, {"0", "1", ""},
		{"8", "7", older}, {"10", "9", older}, {"100", "99", older}, {"1", "0", older}, {"999999999999999999", "1", older},
		{"7", none, lacks}, {"7", "", lacks}, {"text", none, lacks},
		{none, "text", wrong}, {"7", "8 ", wrong}, {"7", "08", wrong}, {"7", "-8", wrong}, {"7", "8.0", wrong}, {"7", "+8", wrong}, {"7", "1000000000000000000", wrong}, {"7", "８", wrong}, {"7", "8\n", wrong},
		{"text", "1", ""}, {"1000000000000000000", "1", ""},
	} {
		for _, kind := range []string{"SignadotSandbox", "VirtualWorkload"} {
			name := fmt.Sprintf("case-%d", n)
			what := fmt.Sprintf("%s %q after %q", kind, c.after, c.before)
			o := numbered(kind, name, c.before)
			if err := s.Create(t.Context(), o); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			next := numbered(kind, name, c.after)
			next.SetResourceVersion(o.GetResourceVersion())
			next.SetLabels(map[string]string{"a": "b"})
			err := agent.Update(t.Context(), next)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err)) {
				t.Errorf("%s: %v", what, err)
			}
			if c.refused == older && !strings.Contains(err.Error(), name+" has "+c.before) {
				t.Errorf("%s: the refusal does not name the object: %v", what, err)
			}
		}
	}
	// Others are not restricted, the agent can patch without it, and delete.
	o := numbered("SignadotSandbox", "case-3", "1")
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	patch := func(c client.Client, text string) error {
		return c.Patch(t.Context(), o.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	for what, err := range map[string]error{
		"the agent's patch of a label":  patch(agent, `{"metadata": {"labels": {"a": "c"}}}`),
		"another account's older write": patch(s.Client, string(text)),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := patch(agent, `{"metadata": {"annotations": null}}`); err == nil || !strings.Contains(err.Error(), lacks) {
		t.Errorf("the agent removes the annotation: %v", err)
	}
	if err := agent.Delete(t.Context(), o); err != nil {
		t.Errorf("the agent's deletion: %v", err)
	}
	for _, values := range []string{"disableAgent: true", "agent: {enabled: false}"} {
		if all := mustRender(t, values); all.find("ValidatingAdmissionPolicy", "", "signadot-agent-generations") != nil {
			t.Errorf("with %s the policy is installed", values)
		}
	}
}
