package sandbox

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
)

// inTheWay returns one refusal for all names that are taken, of the sandbox's parts and of objects that
// its members need; nil if there is none. Members report one object at a time, so it also lists all
// objects without an owner that have the sandbox's label.
func inTheWay(ctx context.Context, w apply.Writer, in Input, made Made) (*apply.Refusal, error) {
	refusals := append([]*apply.Refusal{made.ConfigRefusal}, made.Refusals...)
	if apply.Together(nil, refusals...) == nil && !made.reportsTaken() {
		return nil, nil
	}
	more, err := w.Unowned(ctx, crdv1.LabelSandbox, crdv1.LabelValue(in.Sandbox.Name), &crdv1.RoutingConfigList{}, &crdv1.ForkedWorkloadList{},
		&appsv1.DeploymentList{}, baseline.NewRolloutList(), &corev1.ServiceList{})
	// The cache may not show an object yet that was adopted just now.
	adopted := func(o apply.InTheWay) bool {
		return made.Config != nil && o.Object == crdv1.KindRoutingConfig+" "+made.Config.Name || slices.ContainsFunc(made.Members, func(m crdv1.Member) bool {
			return m != nil && o.Object == member.NameOf(m).String()
		})
	}
	return apply.Together(slices.DeleteFunc(more, adopted), refusals...), err
}

// reportsTaken reports whether a member's condition states that a name is taken.
func (m Made) reportsTaken() bool {
	for _, have := range m.Members {
		if have == nil {
			continue
		}
		c := crdv1.FindCondition(*have.StatusConditions(), crdv1.ConditionReady)
		if c != nil && c.Reason == apply.ReasonNameTaken && c.Status == string(metav1.ConditionFalse) && c.ObservedGeneration >= have.GetGeneration() {
			return true
		}
	}
	return false
}
