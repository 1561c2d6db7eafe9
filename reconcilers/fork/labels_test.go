package fork_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	livebaseline "switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
)

// budget reads a PodDisruptionBudget.
func budget(t testing.TB, text string) policyv1.PodDisruptionBudget {
	t.Helper()
	var b policyv1.PodDisruptionBudget
	read(t, text, &b)
	return b
}

func TestSelectorsThatMatchTheFork(t *testing.T) {
	const versioned = `[version]` // The label that the fork keeps; the baseline has app and version.
	tests := []struct {
		name      string
		preserved string
		patches   string
		service   string
		budget    string
		says      []string // Nothing: it is let through.
	}{
		{name: "a Service that selects by a label that is kept", preserved: versioned,
			service: `{metadata: {name: web}, spec: {selector: {version: v1}}}`, says: []string{"Service web", "version=v1", "without a key"}},
		{name: "a Service that selects by more than is kept", preserved: versioned,
			service: `{metadata: {name: web}, spec: {selector: {version: v1, app: customer}}}`},
		{name: "a Service that selects by a label that is kept, though it is not to be routed", preserved: versioned,
			service: `{metadata: {name: web, annotations: {routing.signadot.com/ignore: "true"}}, spec: {selector: {version: v1}}}`, says: []string{"Service web"}},
		{name: "a Service without a selector selects nothing", preserved: versioned,
			service: `{metadata: {name: web}, spec: {ports: [{port: 80}]}}`},
		{name: "a Service with an empty selector selects nothing", preserved: versioned,
			service: `{metadata: {name: web}, spec: {selector: {}}}`},
		{name: "a Service that is a name for a host elsewhere leads to no pods", preserved: versioned,
			service: `{metadata: {name: web}, spec: {type: ExternalName, externalName: a.b, selector: {version: v1}}}`},
		{name: "a Service that Argo has narrowed to one form of a Rollout, which it will let go of", preserved: versioned,
			service: `{metadata: {name: web}, spec: {selector: {version: v1, rollouts-pod-template-hash: abc}}}`, says: []string{"Service web"}},
		{name: "a Service by nothing but the form of a Rollout", preserved: versioned,
			service: `{metadata: {name: web}, spec: {selector: {rollouts-pod-template-hash: abc}}}`},
		{name: "a Service of another workload, by a label that a patch gives", preserved: `[]`,
			patches: `[{merge: {spec: {template: {metadata: {labels: {app: driver}}}}}}]`,
			service: `{metadata: {name: driver}, spec: {selector: {app: driver}}}`, says: []string{"Service driver", "patches"}},
		{name: "the baseline, where all its labels are kept", preserved: `[app, version]`, says: []string{"app=customer", "its own pods"}},
		{name: "a budget of the baseline, by a label that is kept", preserved: versioned,
			budget: `{metadata: {name: two}, spec: {minAvailable: 2, selector: {matchLabels: {version: v1}}}}`, says: []string{"PodDisruptionBudget two", "version=v1"}},
		{name: "a budget of the baseline, by an expression over a label that is kept", preserved: versioned,
			budget: `{metadata: {name: two}, spec: {selector: {matchExpressions: [{key: version, operator: Exists}]}}}`, says: []string{"PodDisruptionBudget two", "version"}},
		{name: "a budget of the baseline by labels that are not kept", preserved: versioned,
			budget: `{metadata: {name: two}, spec: {selector: {matchLabels: {app: customer}}}}`},
		{name: "a budget for every pod of the namespace, forks too", preserved: versioned,
			budget: `{metadata: {name: all}, spec: {selector: {}}}`},
		{name: "a budget for all but some pods, whichever labels are kept", preserved: versioned,
			budget: `{metadata: {name: most}, spec: {selector: {matchExpressions: [{key: app, operator: NotIn, values: [batch]}]}}}`},
		{name: "a budget without a selector is for no pod", preserved: versioned,
			budget: `{metadata: {name: none}, spec: {minAvailable: 1}}`},
		{name: "a budget of somebody's own for the fork, by a label that a patch gives", preserved: `[]`,
			patches: `[{merge: {spec: {template: {metadata: {labels: {tier: fork}}}}}}]`,
			budget:  `{metadata: {name: mine}, spec: {selector: {matchLabels: {tier: fork}}}}`},
	}
	for _, s := range subjects() {
		live := s.live(t, func(*corev1.PodTemplateSpec) {})
		for _, tt := range tests {
			t.Run(s.kind+": "+tt.name, func(t *testing.T) {
				plan := fork.Plan{Identity: identity()}
				read(t, tt.preserved, &plan.PreservedLabels)
				if tt.patches != "" {
					plan.Patches = patches(t, tt.patches)
				}
				if tt.service != "" {
					plan.Neighbours = []corev1.Service{service(t, `{metadata: {name: other}, spec: {selector: {app: other}}}`), service(t, tt.service)}
				}
				if tt.budget != "" {
					plan.Budgets = []policyv1.PodDisruptionBudget{budget(t, tt.budget)}
				}
				expect(t, live, plan, tt.says)
			})
		}
	}
}

// expect makes the fork, and wants a refusal that says something, or none.
func expect(t *testing.T, live *livebaseline.Workload, plan fork.Plan, says []string) {
	t.Helper()
	_, problem := fork.Clone(live, plan)
	switch {
	case problem == nil && len(says) > 0:
		t.Error("it is not refused")
	case problem == nil:
	case len(says) == 0:
		t.Error("it is refused:", problem.Message)
	case problem.Reason != fork.ReasonLabelsMatchBaseline:
		t.Error(problem.Reason)
	default:
		mustContain(t, problem.Message, append(says, live.String())...)
	}
}

func TestAServiceThatIsMadeLaterIsHeldAgainstALabelThatWasKeptBefore(t *testing.T) {
	plan := fork.Plan{PreservedLabels: []string{"version"}}
	clone(t, plan)
	plan.Neighbours = []corev1.Service{service(t, `{metadata: {name: later}, spec: {selector: {version: v1}}}`)}
	mustContain(t, refusal(t, plan).Message, "Service later")
}

func TestTheForkHasANameThatNoAutoscalerKnows(t *testing.T) {
	got := clone(t, fork.Plan{})
	if got.Name == "customer" || got.Spec.Replicas != nil {
		t.Errorf("%s has %d replicas: an autoscaler of the baseline goes by its name and its number", got.Name, *got.Spec.Replicas)
	}
}
