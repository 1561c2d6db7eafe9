package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overtaken returns a conflict: the cached version of an object is stale, for example on a leader that
// has just started. The object is reconciled again after the cache has been updated.
func Overtaken(kind, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New(why))
}

// LiveUID returns the UID of an object by an uncached read; empty if it does not exist.
func (w Writer) LiveUID(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (types.UID, error) {
	live, err := w.live(ctx, kind, key)
	if err != nil || live == nil {
		return "", err
	}
	return live.UID, nil
}

// live reads the metadata of an object from the API server; nil if it does not exist.
func (w Writer) live(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err := w.Live.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s past the cache: %w", kind.Kind, strings.TrimPrefix(key.String(), "/"), err)
	}
	return live, nil
}
