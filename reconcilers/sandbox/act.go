package sandbox

import (
	"context"
	"errors"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/sandbox/middleware"
)

// provide writes the Resources that forks wait for, and returns the input with the results: whether the
// current spec of a Resource is ready is known only after it has been written. An error means that the
// call should be retried.
//
// +kubebuilder:rbac:groups=signadot.com,resources=resources,verbs=create;patch;delete
func provide(ctx context.Context, w apply.Writer, in Input) (Input, error) {
	var errs []error
	there := map[string]*crdv1.Resource{}
	in.Unwritten = map[string]*apply.Refusal{}
	for _, want := range Provide(in) {
		have, refusal, err := apply.Try(ctx, w, want, in.resource(want.Name))
		if refusal != nil || err != nil {
			in.Unwritten[want.Name] = refusal
			errs = append(errs, err)
			continue
		}
		there[want.Name] = have
	}
	all := lists.Filter(in.Resources, func(r *crdv1.Resource) bool { return there[r.Name] == nil })
	in.Resources = slices.AppendSeq(all, maps.Values(there))
	return in.ordered(), errors.Join(errs...)
}

// act applies the decision: members before the routing that names them, and the routing before the
// deletion of members that it no longer names; Resources last, when no fork uses them. Refused writes are
// recorded in Made. An error means that the call should be retried; a failed write does not stop the
// others.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads;signadotexternalworkloads;virtualworkloads;routingconfigs,verbs=create;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes/finalizers,verbs=update
func act(ctx context.Context, r client.Reader, w apply.Writer, in Input, d Decision) (Made, error) {
	made := Made{Members: make([]crdv1.Member, len(d.Members)), Refusals: make([]*apply.Refusal, len(d.Members))}
	var errs []error
	for i, m := range d.Members {
		made.Members[i] = in.member(m.Object)
		if !m.Keep {
			var err error
			made.Members[i], made.Refusals[i], err = member.Write(ctx, w, m.Object, made.Members[i])
			errs = append(errs, err)
		}
	}
	if d.Config != nil {
		var err error
		made.Config, made.ConfigRefusal, err = apply.Try(ctx, w, d.Config, in.KeyConfig)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return made, err // Surplus parts stay until their replacements exist.
	}
	var err error
	made.Attached, err = middleware.Asked{Sandbox: in.Sandbox, Groups: in.Groups, Members: made.Members}.Attach(ctx, r, w)
	return made, errors.Join(err, w.DeleteSurplus(ctx, in.Sandbox, d.toDelete(made)...))
}

// toDelete returns all surplus objects in the order of deletion: members once the routing log does not
// name them, since until then requests for them would fail. A change of the RoutingConfig's status
// enqueues the sandbox.
func (d Decision) toDelete(made Made) []client.Object {
	if !routing.OnLog(made.Config) {
		return apply.Objects(d.SurplusConfigs)
	}
	return slices.Concat(apply.Objects(d.SurplusConfigs), apply.Objects(d.SurplusMembers), apply.Objects(d.SurplusResources))
}

// refused reports whether something was refused.
func (m Made) refused() bool {
	return slices.ContainsFunc(m.Refusals, func(r *apply.Refusal) bool { return r != nil }) || m.ConfigRefusal != nil || m.Attached.Refusal != nil || len(m.Attached.Groups) > 0
}

// refusedResource reports whether a Resource was refused.
func (in Input) refusedResource() bool {
	for _, r := range in.Unwritten {
		if r != nil {
			return true
		}
	}
	return false
}

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
