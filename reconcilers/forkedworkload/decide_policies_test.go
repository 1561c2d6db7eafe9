package forkedworkload_test

import (
	"errors"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/policies"
)

// networkPolicy selects pods by labels.
func networkPolicy(labels map[string]string) policies.Policy {
	return policies.OfNetworkPolicy(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "deny"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: labels}}})
}

// excluding selects the pods without a label, or without some values of it.
func excluding(key string, by metav1.LabelSelectorOperator, values ...string) policies.Policy {
	return policies.OfNetworkPolicy(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "but"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: by, Values: values}}}}})
}

// adminPolicy selects all pods, by a field that is not read.
func adminPolicy() policies.Policy {
	further := policies.Kinds([]policies.Kind{{Group: "policy.networking.k8s.io", Kind: "AdminNetworkPolicy", Resource: "adminnetworkpolicies"}})
	return policies.Read(further[len(further)-1], map[string]any{"metadata": map[string]any{"name": "deny"},
		"spec": map[string]any{"subject": map[string]any{"pods": map[string]any{"podSelector": map[string]any{}}}}})
}

// podMonitor selects the same pods, and protects nothing.
func podMonitor(labels map[string]any) policies.Policy {
	for _, kind := range policies.Kinds(nil) {
		if kind.Kind == "PodMonitor" {
			return policies.Read(kind, map[string]any{"metadata": map[string]any{"namespace": "ns", "name": "scrape"},
				"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}}})
		}
	}
	return policies.Policy{}
}

func TestPoliciesThatDoNotApplyToTheFork(t *testing.T) {
	team := map[string]string{"team": "shop"}
	tests := []struct {
		name   string
		change func(w *world)
		// reason is empty where nothing is reported.
		reason  string
		message string
		refused bool
	}{
		{name: "none", change: func(*world) {}},
		{name: "a NetworkPolicy by a label that the fork lacks", change: func(w *world) { w.in.Policies = []policies.Policy{networkPolicy(team)} },
			reason: "PolicyNotApplied", message: "NetworkPolicy ns/deny selects the pods of Deployment ns/a by label team, which the fork lacks, so it does not apply to the fork. Add ^team$ to spec.customization.preservedLabels"},
		{name: "it is refused by a value", change: func(w *world) { w.in.RefusePolicies, w.in.Policies = true, []policies.Policy{networkPolicy(team)} },
			reason: "PolicyNotApplied", message: "NetworkPolicy ns/deny", refused: true},
		{name: "the sandbox keeps the label", change: func(w *world) {
			w.in.Policies, w.in.Workload.Spec.PreservedLabels = []policies.Policy{networkPolicy(team)}, []string{"^team$"}
		}},
		{name: "the installation keeps the label", change: func(w *world) {
			w.in.Policies, w.in.InstallationLabels = []policies.Policy{networkPolicy(team)}, []string{"^team$"}
		}},
		{name: "by a label that is never kept, since the Service selects by it", change: func(w *world) {
			w.in.Policies, w.in.InstallationLabels = []policies.Policy{networkPolicy(map[string]string{"app": "a"})}, []string{"."}
		}, reason: "PolicyNotApplied", message: "; a fork cannot keep label app, by which Deployment ns/a selects. Copy the policy for pods with label signadot.com/forked-workload=sb-a-1, or for a label"},
		{name: "by such a label, and a copy of it selects the fork", change: func(w *world) {
			w.in.Policies = []policies.Policy{networkPolicy(map[string]string{"app": "a"}), networkPolicy(map[string]string{crdv1.LabelForkedWorkload: "sb-a-1"})}
		}},
		{name: "by such a label, and a copy of it selects a label that a patch adds", change: func(w *world) {
			w.in.Policies = []policies.Policy{networkPolicy(map[string]string{"app": "a"}), networkPolicy(map[string]string{"of": "fork"})}
			w.in.Workload.Spec.Patches = []crdv1.Patch{patchOf("strategic", `{"spec":{"template":{"metadata":{"labels":{"of":"fork"}}}}}`)}
		}},
		{name: "by a part of the labels that the baseline selects by, which the sandbox may keep", change: func(w *world) {
			w.in.Baseline.Selector.MatchLabels = map[string]string{"app": "a", "team": "shop"}
			w.in.Policies = []policies.Policy{networkPolicy(team), podMonitor(map[string]any{"team": "shop"})}
		}, reason: "PolicyNotApplied", message: "so it does not apply to the fork (likewise PodMonitor ns/scrape). Add ^team$ to spec.customization.preservedLabels of the sandbox."},
		{name: "one that excludes forks is only reported", change: func(w *world) {
			w.in.RefusePolicies, w.in.Policies = true, []policies.Policy{excluding(crdv1.LabelForkedWorkload, metav1.LabelSelectorOpDoesNotExist)}
		}, reason: "PolicyExcludesForks", message: "NetworkPolicy ns/but selects the pods of Deployment ns/a and excludes forks by label signadot.com/forked-workload. Change its selector"},
		{name: "one that excludes what the sandbox sets is not", change: func(w *world) {
			w.in.RefusePolicies, w.in.Policies = true, []policies.Policy{excluding("guard", metav1.LabelSelectorOpNotIn, "off")}
			w.in.Workload.Spec.Patches = []crdv1.Patch{patchOf("strategic", `{"spec":{"template":{"metadata":{"labels":{"guard":"off"}}}}}`)}
		}, reason: "PolicyNotApplied", message: "excludes the fork by label guard, which its specification sets. Remove the label", refused: true},
		{name: "one for every pod applies to forks", change: func(w *world) { w.in.Policies = []policies.Policy{networkPolicy(nil)} }},
		{name: "one for other pods", change: func(w *world) { w.in.Policies = []policies.Policy{networkPolicy(map[string]string{"team": "pay"})} }},
		{name: "a PodMonitor is only reported", change: func(w *world) {
			w.in.RefusePolicies, w.in.Policies = true, []policies.Policy{podMonitor(map[string]any{"team": "shop"})}
		}, reason: "PolicyObserves", message: "PodMonitor ns/scrape selects"},
		{name: "what protects goes first", change: func(w *world) {
			w.in.Policies = []policies.Policy{podMonitor(map[string]any{"team": "shop"}), networkPolicy(team)}
		}, reason: "PolicyNotApplied", message: "(likewise PodMonitor ns/scrape)"},
		{name: "one of a further kind, by a field that is not read", change: func(w *world) {
			w.in.RefusePolicies, w.in.Policies = true, []policies.Policy{adminPolicy()}
		}, reason: "PolicyUnclear", message: "AdminNetworkPolicy deny has none of the fields that are read (spec.targetRef"},
		{name: "they cannot be read", change: func(w *world) { w.in.PoliciesUnread = errors.New("no right") },
			reason: "PoliciesUnreadable", message: "no right"},
		{name: "some cannot be read, and another does not apply", change: func(w *world) {
			w.in.PoliciesUnread, w.in.Policies = errors.New("no right"), []policies.Policy{networkPolicy(team)}
		}, reason: "PolicyNotApplied", message: "NetworkPolicy ns/deny"},
		{name: "they cannot be read, and are a reason to refuse", change: func(w *world) {
			w.in.RefusePolicies, w.in.PoliciesUnread = true, errors.New("no right")
		}, reason: "PoliciesUnreadable", message: "no right", refused: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.in.Baseline.Template.Labels = map[string]string{"app": "a", "team": "shop"}
			w.in.Fork = w.made.Fork
			w.remembers()
			tt.change(w)
			d := forkedworkload.Decide(w.in)
			after := forkedworkload.Conclude(w.in, d, w.made, now)
			c := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionPoliciesApply)
			switch {
			case tt.reason == "" && c != nil:
				t.Errorf("it reports %+v", c)
			case tt.reason != "" && (c == nil || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message)):
				t.Errorf("it reports %+v", c)
			}
			if ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady); (ready.Status == "True") == tt.refused {
				t.Errorf("Ready is %+v", ready)
			}
			if tt.refused != (d.Fork == nil) {
				t.Errorf("the fork is %v", d.Fork)
			}
			if tt.refused && w.in.PoliciesUnread == nil && len(d.SurplusForks) != 1 {
				t.Errorf("the fork that runs stays: %v", d.SurplusForks)
			}
			c = crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionPoliciesApply)
			w.in.Workload, w.in.Policies, w.in.PoliciesUnread = after, nil, nil
			after = forkedworkload.Conclude(w.in, forkedworkload.Decide(w.in), w.made, now)
			if left := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionPoliciesApply); left != nil {
				t.Errorf("after %+v, without policies it still reports %+v", c, left)
			}
		})
	}
}
