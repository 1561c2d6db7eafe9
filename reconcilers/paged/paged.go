// Package paged lists objects in pages, for reads that bypass a cache.
package paged

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Size is the default number of objects in a page.
const Size = 500

// Each lists all objects of a kind, in one namespace or in all (""), with size objects in a page, and
// calls each with every page, which the callee may keep.
func Each[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, reader client.Reader, namespace string, size int64, each func(L)) error {
	for next := ""; ; {
		list := L(new(T))
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(size), client.Continue(next)); err != nil {
			return err
		}
		each(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// MayNotList returns an error of a list with its remedy.
func MayNotList(what, namespace string, err error) error {
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		return fmt.Errorf("the %s of all namespaces may not be listed: name one with --namespace, or ask for the right: %w", what, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the %s of namespace %s may not be listed: ask for the right: %w", what, namespace, err)
	}
	return fmt.Errorf("list %s: %w", what, err)
}
