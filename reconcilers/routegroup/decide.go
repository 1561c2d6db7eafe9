package routegroup

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
)

// Decision has the desired RoutingConfig.
type Decision struct {
	// Accepted is the condition about the spec.
	Accepted condition.Condition
	// Members are those of the group, in the order of spec.sandboxNames, then by kind,
	// namespace and name.
	Members []crdv1.Member
	// Config is the RoutingConfig to apply; nil: there should be none.
	Config *crdv1.RoutingConfig
	// Surplus are RoutingConfigs of this group that are not wanted.
	Surplus []*crdv1.RoutingConfig
}

// Decide returns which RoutingConfig there should be for a group that is not being
// deleted.
func Decide(in Input) Decision {
	d := Decision{Accepted: accept(in)}
	if in.acceptKey().IsTrue() {
		var listed []crdv1.SandboxedWorkload
		d.Members, listed = members(in)
		d.Config = configFor(in, listed)
	}
	for i := range in.Configs {
		if c := &in.Configs[i]; d.Config == nil || c.Name != d.Config.Name {
			d.Surplus = append(d.Surplus, c)
		}
	}
	return d
}

// accept returns whether the spec is valid and the group has its key.
func accept(in Input) condition.Condition {
	if f := in.acceptKey(); !f.IsTrue() {
		return f
	}
	if i := slices.Index(in.Group.Spec.SandboxNames, ""); i >= 0 {
		return condition.False(baseline.ReasonInvalidSpec, fmt.Sprintf(
			"spec.sandboxNames[%d] is empty, and left out: name a SignadotSandbox there, or remove the entry", i))
	}
	key := in.Group.Spec.RoutingKey
	message := fmt.Sprintf("The spec is valid, and routing key %q is held by this group.", key)
	if rivals := routingkey.Rivals(routingkey.OfGroup(in.Group), in.Claims); rivals != "" {
		message += " " + rivals
	}
	return routingkey.Accepted(key, message)
}

// members returns all members of the sandboxes of the group, and their entries in the RoutingConfig, with
// the same indexes. Readiness is ignored: routing that depended on it would silently send requests to the
// baseline.
func members(in Input) (all []crdv1.Member, listed []crdv1.SandboxedWorkload) {
	for _, name := range in.names() {
		s, ok := in.Sandboxes[name]
		if !ok || s.Object.DeletionTimestamp != nil {
			continue
		}
		own := slices.Clone(s.Members)
		slices.SortFunc(own, func(a, b crdv1.Member) int {
			return cmp.Or(cmp.Compare(a.MemberKind(), b.MemberKind()),
				cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
		for _, m := range own {
			if m.GetDeletionTimestamp() != nil {
				continue
			}
			all = append(all, m)
			listed = append(listed, crdv1.SandboxedWorkload{
				SandboxedWorkloadRef: routing.Ref(m, s.Object.DisplayName()),
				Middlewares:          middlewares(in, s.Object, m),
			})
		}
	}
	return all, listed
}

// middlewares returns the middlewares for a member: those of the group, if it lists any, else those of the
// sandbox.
func middlewares(in Input, s *crdv1.SignadotSandbox, m crdv1.Member) []crdv1.MiddlewareInstance {
	matches := in.Group.Spec.TrafficManagerMatches
	if len(matches) == 0 {
		matches = s.Spec.RequestMiddlewares
	}
	// A member without a baseline is none that a match could name; those for all count.
	ref, _ := m.BaselineRef()
	return routing.MiddlewaresFor(matches, ref)
}

// configFor returns the RoutingConfig of the group.
func configFor(in Input, listed []crdv1.SandboxedWorkload) *crdv1.RoutingConfig {
	g := in.Group
	return &crdv1.RoutingConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig},
		ObjectMeta: metav1.ObjectMeta{
			Name:   routingkey.ConfigName(g.Spec.RoutingKey),
			Labels: map[string]string{crdv1.LabelRouteGroup: crdv1.LabelValue(g.Name)},
			Annotations: map[string]string{
				crdv1.AnnotationRoutingKey: g.Spec.RoutingKey,
				crdv1.AnnotationOnBehalf:   onBehalf(in, listed),
				AnnotationAsked:            asked(g),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, crdv1.GroupVersion().WithKind(crdv1.KindRouteGroup))},
		},
		// Never null, which the API server refuses.
		Spec: crdv1.RoutingConfigSpec{SandboxedWorkloads: append([]crdv1.SandboxedWorkload{}, listed...)},
	}
}
