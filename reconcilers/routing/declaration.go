package routing

import (
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Declaration returns the declaration of the RoutingConfig: its members, and the baselines of those
// that do not exist.
func (r Routing) Declaration() *factv1.RoutingDeclared {
	d := r.named()
	r.addBaselines(d)
	return d
}

// named returns a declaration with the members, but without their baselines.
func (r Routing) named() *factv1.RoutingDeclared {
	d := &factv1.RoutingDeclared{
		RoutingKey: r.Config.RoutingKey(),
		Owner:      Owner(r.Config),
		Since:      timestamppb.New(r.Config.CreationTimestamp.Time),
	}
	for _, m := range r.Named() {
		d.Members = append(d.Members, &factv1.Member{
			Kind:        m.Kind,
			Namespace:   m.Namespace,
			Name:        m.Name,
			Sandbox:     r.SandboxName(m),
			Middlewares: middlewares(m.Middlewares),
		})
	}
	return d
}

// Owner returns the owner of the key: the sandbox or route group that controls the RoutingConfig, or
// the RoutingConfig itself.
func Owner(c *crdv1.RoutingConfig) *factv1.ObjectRef {
	if ref := metav1.GetControllerOfNoCopy(c); ref != nil {
		return &factv1.ObjectRef{Kind: ref.Kind, Name: ref.Name, Uid: string(ref.UID)}
	}
	return &factv1.ObjectRef{Kind: crdv1.KindRoutingConfig, Name: c.Name, Uid: string(c.UID)}
}

// middlewares returns the middlewares in the form of a fact.
func middlewares(in []crdv1.MiddlewareInstance) []*factv1.Middleware {
	var out []*factv1.Middleware
	for _, m := range in {
		mw := &factv1.Middleware{Name: m.Middleware}
		for _, a := range m.Args {
			arg := &factv1.Argument{Name: a.Name, Value: a.Value}
			if a.ValueFrom != nil {
				arg.Forward = a.ValueFrom.Forward
			}
			mw.Args = append(mw.Args, arg)
		}
		out = append(out, mw)
	}
	return out
}
