// Package policyreader reads policies from the caches of optional kinds.
package policyreader

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
)

// Kinds reports whether the cluster has a kind. *optional.Kinds implements it.
type Kinds interface {
	Present(ctx context.Context, kind schema.GroupKind) (bool, error)
}

// Optional returns kinds of policies as optional kinds of the cluster, each once. Only the fields that
// policies.Read uses are cached.
func Optional(kinds []policies.Kind) []optional.Kind {
	out := make([]optional.Kind, 0, len(kinds))
	for _, k := range kinds {
		out = append(out, optional.Kind{GroupVersionKind: k.GroupKind().WithVersion(""), Definition: k.Definition(), Keep: policies.Keep})
	}
	return out
}

// List returns the objects of a kind, which are those of the cache; none where the cluster lacks
// the kind.
func List(ctx context.Context, from client.Reader, kinds Kinds, kind policies.Kind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	present, err := kinds.Present(ctx, kind.GroupKind())
	if err != nil || !present {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Kind: kind.Kind + "List"})
	if err := from.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.GroupKind(), err)
	}
	return list.Items, nil
}

// Reader reads the policies that may apply to pods.
type Reader struct {
	// Client reads from caches.
	Client client.Reader
	Kinds  Kinds
	// Of are the kinds that it reads.
	Of []policies.Kind
	// Namespaces are those that may be read; empty means all.
	Namespaces []string
}

// In returns the policies that may apply to pods of a namespace. With an error, which names a kind
// that cannot be read, it returns the others.
func (r Reader) In(ctx context.Context, namespace string) ([]policies.Policy, error) {
	var out []policies.Policy
	var unread error
	for _, kind := range r.Of {
		for _, at := range kind.Namespaces(namespace) {
			if at != "" && len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, at) {
				unread = cmp.Or(unread, r.outside(ctx, kind, at))
				continue
			}
			found, err := List(ctx, r.Client, r.Kinds, kind, client.InNamespace(at))
			unread = cmp.Or(unread, err)
			for i := range found {
				out = append(out, policies.Read(kind, found[i].Object))
			}
		}
	}
	return out, unread
}

// outside returns an error if the cluster has a kind of which objects in a namespace that may not
// be read protect pods of others.
func (r Reader) outside(ctx context.Context, kind policies.Kind, namespace string) error {
	if kind.Observes() {
		return nil
	}
	present, err := r.Kinds.Present(ctx, kind.GroupKind())
	if err == nil && present {
		err = fmt.Errorf("objects of kind %s in namespace %s apply to pods of all namespaces, and allowedNamespaces lacks it", kind.GroupKind(), namespace)
	}
	return err
}
