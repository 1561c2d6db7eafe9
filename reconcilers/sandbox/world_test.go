package sandbox_test

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/sandbox"
)

// provided returns the world once the Resources that should be there are written.
func provided(in sandbox.Input) sandbox.Input {
	var all []*crdv1.Resource
	want := sandbox.Provide(in)
	for _, have := range in.Resources {
		if !slices.ContainsFunc(want, func(r *crdv1.Resource) bool { return r.Name == have.Name }) {
			all = append(all, have)
		}
	}
	for _, w := range want {
		next := w.DeepCopy()
		at := slices.IndexFunc(in.Resources, func(r *crdv1.Resource) bool { return r.Name == w.Name })
		if at >= 0 {
			next.Status = in.Resources[at].Status
			born(next, in.Resources[at], reflect.DeepEqual(next.Spec, in.Resources[at].Spec))
		} else {
			born(next, nil, true)
		}
		all = append(all, next)
	}
	in.Resources = all
	return in
}

// born gives an object what the API server gives it. have is what is there.
func born(next, have metav1.Object, same bool) {
	next.SetUID(types.UID("uid-of-" + next.GetName()))
	next.SetCreationTimestamp(then)
	next.SetGeneration(1)
	if have == nil || reflect.ValueOf(have).IsNil() {
		return
	}
	next.SetGeneration(have.GetGeneration())
	if !same {
		next.SetGeneration(have.GetGeneration() + 1)
	}
}

// acted returns what is there once a decision is acted on.
func acted(in sandbox.Input, d sandbox.Decision) sandbox.Made {
	made := sandbox.Made{Refusals: make([]*apply.Refusal, len(d.Members))}
	for _, w := range d.Members {
		at := slices.IndexFunc(in.Members, func(m crdv1.Member) bool { return place(m) == place(w.Object) })
		switch {
		case w.Keep:
			made.Members = append(made.Members, in.Members[at])
		case at < 0:
			made.Members = append(made.Members, written(w.Object, nil))
		default:
			made.Members = append(made.Members, written(w.Object, in.Members[at]))
		}
	}
	if d.Config != nil {
		made.Config = d.Config.DeepCopy()
		if in.KeyConfig != nil {
			made.Config.Status = in.KeyConfig.Status
			born(made.Config, in.KeyConfig, reflect.DeepEqual(made.Config.Spec, in.KeyConfig.Spec))
		} else {
			born(made.Config, nil, true)
		}
	}
	return made
}

// place returns where a member is.
func place(m crdv1.Member) string {
	return fmt.Sprintf("%s %s/%s", m.MemberKind(), m.GetNamespace(), m.GetName())
}

// written returns a member as it is once it is written; have may be nil.
func written(want, have crdv1.Member) crdv1.Member {
	switch next := want.DeepCopyObject().(type) {
	case *crdv1.ForkedWorkload:
		if have, ok := have.(*crdv1.ForkedWorkload); ok {
			next.Status = have.Status
			born(next, have, reflect.DeepEqual(next.Spec, have.Spec))
			return next
		}
		born(next, nil, true)
		return next
	case *crdv1.SignadotExternalWorkload:
		if have, ok := have.(*crdv1.SignadotExternalWorkload); ok {
			next.Status = have.Status
			born(next, have, reflect.DeepEqual(next.Spec, have.Spec))
			return next
		}
		born(next, nil, true)
		return next
	case *crdv1.VirtualWorkload:
		if have, ok := have.(*crdv1.VirtualWorkload); ok {
			next.Status = have.Status
			born(next, have, reflect.DeepEqual(next.Spec, have.Spec))
			return next
		}
		born(next, nil, true)
		return next
	}
	panic(fmt.Sprintf("%T is no member", want))
}

// lived returns the world after the sandbox was looked at once.
func lived(in sandbox.Input) (sandbox.Input, sandbox.Decision) {
	in = provided(in)
	d := sandbox.Decide(in)
	made := acted(in, d)
	in.Members = nil
	for _, m := range made.Members {
		if m != nil {
			in.Members = append(in.Members, m)
		}
	}
	in.Resources = slices.DeleteFunc(slices.Clone(in.Resources), func(r *crdv1.Resource) bool { return slices.Contains(d.SurplusResources, r) })
	in.Configs, in.KeyConfig = nil, nil
	if made.Config != nil {
		in.Configs, in.KeyConfig = []crdv1.RoutingConfig{*made.Config}, made.Config
	}
	return in, d
}

// condition is a condition of an object at its present generation.
func condition(o metav1.Object, conditionType, status, reason, message string) crdv1.StatusCondition {
	return crdv1.StatusCondition{
		Type: conditionType, Status: status, Reason: reason, Message: message,
		ObservedGeneration: o.GetGeneration(), LastTransitionTime: then,
	}
}

// engine says of each Resource how it is.
func engine(in sandbox.Input, status, reason, message string) sandbox.Input {
	var all []*crdv1.Resource
	for _, r := range in.Resources {
		r = r.DeepCopy()
		r.Status.ObservedGeneration = r.Generation
		r.Status.Conditions = []crdv1.StatusCondition{condition(r, crdv1.ConditionReady, status, reason, message)}
		all = append(all, r)
	}
	in.Resources = all
	return in
}

// running says of each member that it is as it should be, and of a fork that is held
// that it waits.
func running(in sandbox.Input) sandbox.Input {
	var all []crdv1.Member
	for _, m := range in.Members {
		m, ok := m.DeepCopyObject().(crdv1.Member)
		if !ok {
			panic("a copy of a member is one")
		}
		conditions := m.StatusConditions()
		*conditions = nil
		for _, t := range append(m.ConditionTypes(), "SidecarsReady") {
			*conditions = append(*conditions, condition(m, t, "True", t, "It is so."))
		}
		if w, ok := m.(*crdv1.ForkedWorkload); ok {
			if why := w.Annotations[crdv1.AnnotationWaitsFor]; why != "" {
				crdv1.SetCondition(conditions, metav1.Condition{Type: crdv1.ConditionReady, Status: "False", Reason: "WaitsFor", Message: why, ObservedGeneration: m.GetGeneration()})
				crdv1.SetCondition(conditions, metav1.Condition{Type: crdv1.ConditionForkAvailable, Status: "False", Reason: "WaitsFor", Message: why, ObservedGeneration: m.GetGeneration()})
			} else {
				w.Status.Fork = &crdv1.ForkStatus{}
			}
		}
		all = append(all, m)
	}
	in.Members = all
	return in
}
