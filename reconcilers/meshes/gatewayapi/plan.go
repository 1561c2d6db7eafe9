package gatewayapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/reconcilers/meshes/releases"
)

// Changes are the writes that turn the current routes into the desired ones.
type Changes struct {
	Create, Update, Delete Routes
}

// Plan returns the changes that turn current into desired. current are all routes of the cluster or, if
// desired covers only some keys, the derived routes of these keys. Routes that are not derived are
// neither updated nor deleted, and a desired route with the name of one is not created. An object to
// update is the current one with the desired content: labels, annotations and owners that others added
// stay, except labels by which a release controller selects routes. An object to delete is complete,
// so that its UID can be a precondition.
func Plan(current, desired Routes, selectors ...releases.Selector) Changes {
	var out Changes
	out.Create.HTTP, out.Update.HTTP, out.Delete.HTTP = plan(current.HTTP, desired.HTTP, func(next, want *gatewayv1.HTTPRoute) {
		unselect(next, want, httpRoutes.name, selectors)
		next.Spec = *want.Spec.DeepCopy()
	})
	out.Create.GRPC, out.Update.GRPC, out.Delete.GRPC = plan(current.GRPC, desired.GRPC, func(next, want *gatewayv1.GRPCRoute) {
		unselect(next, want, grpcRoutes.name, selectors)
		next.Spec = *want.Spec.DeepCopy()
	})
	out.Create.TLS, out.Update.TLS, out.Delete.TLS = plan(current.TLS, desired.TLS, func(next, want *gatewayv1.BackendTLSPolicy) {
		next.Spec = *want.Spec.DeepCopy()
	})
	return out
}

// merge adds the labels, annotations and owners of want to have. GatewayAPIRoutes that are not owners
// in want are removed from the owners. A preserved label that was removed from the original stays.
func merge(have, want metav1.Object) {
	have.SetLabels(lists.Merged(have.GetLabels(), want.GetLabels()))
	have.SetAnnotations(lists.Merged(have.GetAnnotations(), want.GetAnnotations()))
	owners := slices.DeleteFunc(slices.Clone(have.GetOwnerReferences()), owns)
	have.SetOwnerReferences(append(owners, want.GetOwnerReferences()...))
}

// unselect removes the labels by which a release controller selects an object, if they are not wanted.
func unselect(have, want metav1.Object, kind string, selectors []releases.Selector) {
	for _, s := range selectors {
		if !s.Selects(kind, have.GetNamespace(), have.GetLabels()) {
			continue
		}
		for _, key := range s.Keys() {
			if _, wanted := want.GetLabels()[key]; !wanted {
				delete(have.GetLabels(), key)
			}
		}
	}
}

// object is a pointer to a route.
type object[R any] interface {
	*R
	metav1.Object
	DeepCopy() *R
}

// plan returns the changes for one kind. set gives a copy of an existing object the content of a desired
// one, except for the labels, annotations and owners.
func plan[R any, P object[R]](current, desired []P, set func(next, want P)) (create, update, remove []P) {
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
		next := P(c.DeepCopy())
		merge(next, want)
		if set(next, want); !equality.Semantic.DeepEqual(c, next) {
			update = append(update, next)
		}
	}
	remove = lists.Filter(current, func(c P) bool {
		return derivedObject(c) && !wanted[name{c.GetNamespace(), c.GetName()}] && c.GetDeletionTimestamp() == nil
	})
	return create, update, remove
}

func derivedObject(o metav1.Object) bool {
	return IsDerived(&metav1.ObjectMeta{Labels: o.GetLabels(), OwnerReferences: o.GetOwnerReferences()})
}
