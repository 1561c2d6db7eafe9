// Package steps has the operations on the resources of sandboxes and their steps: find, retry, give up,
// read logs, without flags and printing.
package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrNotFound: there is no resource object of that name.
	ErrNotFound = errors.New("not found")
	// ErrNotDeleting: the resource is not being deleted.
	ErrNotDeleting = errors.New("it is not being deleted")
)

// Get reads the object of a resource, or returns ErrNotFound.
func Get(ctx context.Context, reader client.Reader, name string) (*crdv1.Resource, error) {
	r := &crdv1.Resource{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, r)
	if apierrors.IsNotFound(err) {
		return nil, ErrNotFound
	}
	return r, failed("read", name, err)
}

// List returns the resources of a sandbox, or of all, by sandbox and name.
func List(ctx context.Context, cluster client.Reader, sandbox string) ([]crdv1.Resource, error) {
	var list crdv1.ResourceList
	if err := cluster.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list Resources: %w", err)
	}
	out := slices.DeleteFunc(list.Items, func(r crdv1.Resource) bool { return sandbox != "" && sandboxOf(&r) != sandbox })
	slices.SortStableFunc(out, func(a, b crdv1.Resource) int {
		return slices.Compare([]string{sandboxOf(&a), a.Spec.Name, a.Name}, []string{sandboxOf(&b), b.Spec.Name, b.Name})
	})
	return out, nil
}

// failed returns an error about a call to the API server; nil for nil.
func failed(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s Resource %s: %w", what, name, err)
}

// Retry asks the operator to run the failed and lost steps of a resource again.
func Retry(ctx context.Context, writer client.Writer, r *crdv1.Resource, now time.Time) error {
	return change(ctx, writer, r, map[string]any{"metadata": annotated(r, crdv1.AnnotationRetry, retryAt(now))})
}

// Replace sets the delete steps of a resource that is being deleted, and has them run. It fails if the
// resource was changed since it was read.
func Replace(ctx context.Context, writer client.Writer, r *crdv1.Resource, units []crdv1.WorkUnit, now time.Time) error {
	metadata := annotated(r, crdv1.AnnotationRetry, retryAt(now))
	metadata["resourceVersion"] = r.ResourceVersion
	return change(ctx, writer, r, map[string]any{"metadata": metadata, "spec": map[string]any{"olm": map[string]any{"postStop": units}}})
}

// GiveUp lets a resource be deleted without its delete steps. It returns ErrNotDeleting for one that is
// not being deleted.
func GiveUp(ctx context.Context, writer client.Writer, r *crdv1.Resource) error {
	if r.DeletionTimestamp == nil {
		return ErrNotDeleting
	}
	return change(ctx, writer, r, map[string]any{"metadata": annotated(r, crdv1.AnnotationGiveUp, "true")})
}

// retryAt returns a value of crdv1.AnnotationRetry.
func retryAt(now time.Time) string { return now.UTC().Format(time.RFC3339Nano) }

// annotated returns metadata with an annotation, for this object and no later one of its name.
func annotated(r *crdv1.Resource, key, value string) map[string]any {
	return map[string]any{"uid": r.UID, "annotations": map[string]string{key: value}}
}

// change writes a merge patch.
func change(ctx context.Context, writer client.Writer, r *crdv1.Resource, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err == nil {
		err = writer.Patch(ctx, r, client.RawPatch(types.MergePatchType, text))
	}
	return failed("change", r.Name, err)
}
