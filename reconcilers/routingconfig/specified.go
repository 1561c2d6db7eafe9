package routingconfig

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
)

// specified returns the baselines of forks that do not exist and that the RoutingConfig's annotation
// does not name, such as after a restore without it. They are read from the specifications of
// sandboxes, with the Services that select each baseline now.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotsandboxes,verbs=get;list;watch
func specified(ctx context.Context, c client.Reader, in Input) (map[member.Name]routing.Specified, error) {
	out := map[member.Name]routing.Specified{}
	for _, m := range in.Unknown() {
		if m.Kind != crdv1.KindForkedWorkload || !in.mayRead(m.Namespace) {
			continue
		}
		all, err := sandboxes(ctx, c, in.Config)
		if err != nil {
			return nil, err
		}
		s, ref := sandboxOf(all, routing.NameIn(m))
		if s == nil {
			continue
		}
		services, err := wouldServe(ctx, c, fork.Identity{ForkedWorkload: m.Name, Namespace: m.Namespace, Baseline: ref, SandboxName: s.DisplayName()})
		if err != nil {
			return nil, err
		}
		if len(services) > 0 { // Otherwise it is looked for again.
			out[routing.NameIn(m)] = routing.Specified{Baseline: ref, Services: services}
		}
	}
	return out, nil
}

// sandboxes returns those that can have the members of a RoutingConfig: its owner, or all where the
// owner is no sandbox. Nothing in them may be changed.
func sandboxes(ctx context.Context, c client.Reader, config *crdv1.RoutingConfig) ([]crdv1.SignadotSandbox, error) {
	var all crdv1.SignadotSandboxList
	if ref := metav1.GetControllerOfNoCopy(config); ref != nil && ref.Kind == crdv1.KindSandbox {
		var owner crdv1.SignadotSandbox
		err := c.Get(ctx, client.ObjectKey{Name: ref.Name}, &owner)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read SignadotSandbox %s: %w", ref.Name, err)
		}
		return append(all.Items, owner), nil
	}
	if err := c.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list SignadotSandboxes: %w", err)
	}
	return all.Items, nil
}

// sandboxOf returns the sandbox with a fork of this name in its specification, and the baseline of the
// fork; nil if there is none.
func sandboxOf(all []crdv1.SignadotSandbox, name member.Name) (*crdv1.SignadotSandbox, crdv1.ObjectRef) {
	for i := range all {
		s := &all[i]
		if s.Spec.Customization == nil {
			continue
		}
		for _, p := range s.Spec.Customization.Patches {
			if p.Target.Namespace == name.Namespace && member.ForkName(s.Name, p.Target) == name.Name {
				return s, p.Target
			}
		}
	}
	return nil, crdv1.ObjectRef{}
}

// wouldServe returns the Services that a fork without patches would have.
func wouldServe(ctx context.Context, c client.Reader, id fork.Identity) ([]crdv1.ServiceMapping, error) {
	w, err := baseline.Read(ctx, c, id.Baseline)
	if err != nil || w == nil {
		return nil, err
	}
	pods, _, err := baseline.Pods(ctx, c, w)
	if err != nil {
		return nil, err
	}
	neighbours, err := baseline.ServicesIn(ctx, c, id.Namespace)
	if err != nil {
		return nil, err
	}
	var out []crdv1.ServiceMapping
	for _, m := range services.Of(baseline.Forms{Template: w.Template, Pods: pods}, w.Template.Spec, neighbours, id) {
		s := crdv1.ServiceMapping{From: m.From, Ports: m.Ports}
		if m.Service != nil {
			s.To = m.Service.Name
		}
		out = append(out, s)
	}
	return out, nil
}
