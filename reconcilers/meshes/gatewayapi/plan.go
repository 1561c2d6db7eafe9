package gatewayapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/releases"
)

// Changes is what makes of the routes that there are those that are to be.
type Changes struct {
	Create, Update, Delete Routes
}

// Empty reports whether nothing changes.
func (c Changes) Empty() bool {
	return c.Create.empty() && c.Update.empty() && c.Delete.empty()
}

func (r Routes) empty() bool { return len(r.HTTP) == 0 && len(r.GRPC) == 0 && len(r.TLS) == 0 }

// Plan returns what makes of current, all routes of the cluster, what is desired. What is not
// ours is neither updated nor deleted, and where it has the name of one that is desired, that
// one is not created. Where only some keys were derived for, both are the derived routes of
// those keys. An object to update is the one that is there with what is desired in
// it: labels, annotations and owners that others gave it stay. One to delete is whole, so that
// its UID can be asked for.
// Of labels by which a release controller selects routes, those stay that are desired.
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

// merge gives an object the labels, annotations and owners that it is to have. Of our owners
// none stays that it is not to have; a preserved label that its original has no more does.
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

// plan plans for one kind. with returns an object that is there with what it is to be, and
// reports whether it is that already.
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
