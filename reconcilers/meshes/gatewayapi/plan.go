package gatewayapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/releases"
)

// Changes are the writes that turn the current routes into the desired ones.
type Changes struct {
	Create, Update, Delete Routes
}

// Empty reports whether there are no changes.
func (c Changes) Empty() bool {
	return c.Create.empty() && c.Update.empty() && c.Delete.empty()
}

func (r Routes) empty() bool { return len(r.HTTP) == 0 && len(r.GRPC) == 0 && len(r.TLS) == 0 }

// Plan returns the changes that turn current into desired. current are all routes of the cluster or, if
// desired covers only some keys, the derived routes of these keys. Routes that are not derived are
// neither updated nor deleted, and a desired route with the name of one is not created. An object to
// update is the current one with the desired content: labels, annotations and owners that others added
// stay, except labels by which a release controller selects routes. An object to delete is complete,
// so that its UID can be a precondition.
func Plan(current, desired Routes, selectors ...releases.Selector) Changes {
	var out Changes
	out.Create.HTTP, out.Update.HTTP, out.Delete.HTTP = plan(current.HTTP, desired.HTTP, func(have, want *gatewayv1.HTTPRoute) (*gatewayv1.HTTPRoute, bool) {
		out := have.DeepCopy()
		merge(&out.ObjectMeta, &want.ObjectMeta)
		unselect(&out.ObjectMeta, &want.ObjectMeta, httpRoutes.name, selectors)
		out.Spec = *want.Spec.DeepCopy()
		return out, equality.Semantic.DeepEqual(have, out)
	})
	out.Create.GRPC, out.Update.GRPC, out.Delete.GRPC = plan(current.GRPC, desired.GRPC, func(have, want *gatewayv1.GRPCRoute) (*gatewayv1.GRPCRoute, bool) {
		out := have.DeepCopy()
		merge(&out.ObjectMeta, &want.ObjectMeta)
		unselect(&out.ObjectMeta, &want.ObjectMeta, grpcRoutes.name, selectors)
		out.Spec = *want.Spec.DeepCopy()
		return out, equality.Semantic.DeepEqual(have, out)
	})
	out.Create.TLS, out.Update.TLS, out.Delete.TLS = plan(current.TLS, desired.TLS, func(have, want *gatewayv1.BackendTLSPolicy) (*gatewayv1.BackendTLSPolicy, bool) {
		out := have.DeepCopy()
		merge(&out.ObjectMeta, &want.ObjectMeta)
		out.Spec = *want.Spec.DeepCopy()
		return out, equality.Semantic.DeepEqual(have, out)
	})
	return out
}

// merge adds the labels, annotations and owners of want to have. GatewayAPIRoutes that are not owners
// in want are removed from the owners. A preserved label that was removed from the original stays.
func merge(have, want *metav1.ObjectMeta) {
	have.Labels, have.Annotations = merged(have.Labels, want.Labels), merged(have.Annotations, want.Annotations)
	owners := slices.DeleteFunc(slices.Clone(have.OwnerReferences), owns)
	have.OwnerReferences = append(owners, want.OwnerReferences...)
}

// unselect removes the labels by which a release controller selects an object, if they are not wanted.
func unselect(have, want *metav1.ObjectMeta, kind string, selectors []releases.Selector) {
	for _, s := range selectors {
		if !s.Selects(kind, have.Namespace, have.Labels) {
			continue
		}
		for _, key := range s.Keys() {
			if _, wanted := want.Labels[key]; !wanted {
				delete(have.Labels, key)
			}
		}
	}
}

func merged(have, want map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

// object is a pointer to a route.
type object[R any] interface {
	*R
	metav1.Object
}

// plan returns the changes for one kind. with returns an existing object with the desired content, and
// whether that equals the existing one.
func plan[R any, P object[R]](current, desired []P, with func(have, want P) (P, bool)) (create, update, remove []P) {
	type name struct{ namespace, name string }
	have, wanted := map[name]P{}, map[name]bool{}
	for _, c := range current {
		have[name{c.GetNamespace(), c.GetName()}] = c
	}
	for _, want := range desired {
		n := name{want.GetNamespace(), want.GetName()}
		wanted[n] = true
		c, there := have[n]
		if !there {
			create = append(create, want)
			continue
		}
		if !derivedObject(c) {
			continue
		}
		if next, same := with(c, want); !same {
			update = append(update, next)
		}
	}
	for _, c := range current {
		if derivedObject(c) && !wanted[name{c.GetNamespace(), c.GetName()}] && c.GetDeletionTimestamp() == nil {
			remove = append(remove, c)
		}
	}
	return create, update, remove
}

func derivedObject(o metav1.Object) bool {
	return IsDerived(&metav1.ObjectMeta{Labels: o.GetLabels(), OwnerReferences: o.GetOwnerReferences()})
}
