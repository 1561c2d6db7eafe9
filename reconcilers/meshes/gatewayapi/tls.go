package gatewayapi

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// KindBackendTLSPolicy is the kind of the policies for TLS connections to backends.
const KindBackendTLSPolicy = "BackendTLSPolicy"

// policyObject identifies a BackendTLSPolicy.
func policyObject(namespace, name string) Object {
	return Object{Kind: KindBackendTLSPolicy, Namespace: namespace, Name: name}
}

// byPrecedence compares policies by the API's precedence for several that target one port: the oldest
// first, then by name.
func byPrecedence(a, b *gatewayv1.BackendTLSPolicy) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), byName(a, b))
}

// portRef is a target of a policy: a port of a Service, or all of its ports.
type portRef struct{ service, port string }

// portRefs returns the Services that a policy targets.
func portRefs(p *gatewayv1.BackendTLSPolicy) []portRef {
	var out []portRef
	for _, ref := range p.Spec.TargetRefs {
		if ref.Group == "" && ref.Kind == kindService {
			out = append(out, portRef{string(ref.Name), string(ptr.Deref(ref.SectionName, ""))})
		}
	}
	return out
}

// deriveTLS returns copies of the BackendTLSPolicies of baseline Services, which target the
// Services of the sandbox. As ages of copies differ from those of the originals, a copy only has the
// targets for which its original has precedence. Users' policies for a Service of the sandbox win.
func (g *group) deriveTLS() []*gatewayv1.BackendTLSPolicy {
	taken := map[string]map[portRef]bool{}
	take := func(namespace string, ref portRef) bool {
		if taken[namespace] == nil {
			taken[namespace] = map[portRef]bool{}
		}
		defer func() { taken[namespace][ref] = true }()
		return !taken[namespace][ref]
	}
	var originals []*gatewayv1.BackendTLSPolicy
	for _, p := range g.in.Routes.TLS {
		if IsDerived(&p.ObjectMeta) || p.DeletionTimestamp != nil {
			continue
		}
		originals = append(originals, p)
		for _, ref := range portRefs(p) {
			if g.managedBy(p.Namespace, ref.service) == nil {
				take(p.Namespace, ref)
			}
		}
	}
	var out []*gatewayv1.BackendTLSPolicy
	for _, p := range originals {
		var refs []portRef
		var asking []*Managed
		for _, ref := range portRefs(p) {
			m := g.managedBy(p.Namespace, ref.service)
			if m == nil || !g.routed(m) || !take(p.Namespace, ref) {
				continue
			}
			for _, name := range m.forks() {
				if fork := (portRef{name, ref.port}); take(p.Namespace, fork) {
					refs = append(refs, fork)
				}
			}
			if !slices.Contains(asking, m) {
				asking = append(asking, m)
			}
		}
		if copied := g.copyOf(p, refs, asking); copied != nil {
			out = append(out, copied)
		}
	}
	return out
}

// copyOf returns a copy of a policy with these targets; nil without targets, if an annotation excludes
// it, or if the name is taken.
func (g *group) copyOf(p *gatewayv1.BackendTLSPolicy, refs []portRef, asking []*Managed) *gatewayv1.BackendTLSPolicy {
	if len(refs) == 0 {
		return nil
	}
	original := policyObject(p.Namespace, p.Name)
	if p.Annotations[crdv1.AnnotationIgnore] == "true" {
		for _, m := range asking {
			g.note(m, Object{}, ReasonIgnored, false, "%s has the annotation %s, so it does not apply to the Service of the sandbox.", original, crdv1.AnnotationIgnore)
		}
		return nil
	}
	object := policyObject(p.Namespace, nameOf(p.Name, g.key, 0))
	if !g.claim(object, original, nil) {
		for _, m := range asking {
			g.note(m, Object{}, ReasonNameTaken, true, "%s cannot be copied for the Service of the sandbox, since another object has the name %s. Rename one of the two.", original, object.Name)
		}
		return nil
	}
	out := &gatewayv1.BackendTLSPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: KindBackendTLSPolicy},
		ObjectMeta: g.metadata(&p.ObjectMeta, KindBackendTLSPolicy, asking), Spec: *p.Spec.DeepCopy(),
	}
	out.Name, out.Spec.TargetRefs = object.Name, nil
	for _, ref := range refs {
		to := gatewayv1.LocalPolicyTargetReferenceWithSectionName{LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Kind: kindService, Name: gatewayv1.ObjectName(ref.service)}}
		if ref.port != "" {
			to.SectionName = new(gatewayv1.SectionName(ref.port))
		}
		out.Spec.TargetRefs = append(out.Spec.TargetRefs, to)
	}
	return out
}

// managedBy returns the request for a Service under the key; nil if there is none.
func (g *group) managedBy(namespace, service string) *Managed {
	i := slices.IndexFunc(g.managed, func(m *Managed) bool { return m.Namespace == namespace && m.TargetService == service })
	if i < 0 {
		return nil
	}
	return g.managed[i]
}

// routed reports whether a derived route has the Service of the sandbox as a backend.
func (g *group) routed(m *Managed) bool {
	return slices.ContainsFunc(g.derived, func(d derivedRoute) bool { return slices.Contains(d.asking, m) })
}
