package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Delete workflows are not cut short: they remove resources outside of the cluster, which nothing
// removes later.

// working reports whether a delete workflow is making progress: none of its units has failed. It
// returns false if workflows cannot be read.
func (d *draining) working(ctx context.Context) bool {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(crdv1.GroupVersion().WithKind(crdv1.KindLifecycleMethods + "List"))
	if err := d.Client.List(ctx, list); err != nil {
		if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			d.Logger.Warn("cannot list SignadotObjectLifecycleMethods, so delete workflows are not waited for", "error", err)
		}
		return false
	}
	return slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), crdv1.Finalizer) && phase != "" && phase != crdv1.PhaseOLMFailed
	})
}

// remains returns a message about the leftovers of a Resource that is forced: the results of the units
// that were started. It is empty for objects of other kinds.
func (d *draining) remains(ctx context.Context, i item) string {
	if i.kind != crdv1.KindResource {
		return ""
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(i.GroupVersionKind())
	if err := d.Client.Get(ctx, client.ObjectKeyFromObject(i), o); err != nil {
		return fmt.Sprintf("objects of its create steps; the steps cannot be read: %v", err)
	}
	var begun []string
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "create")
	for _, one := range all {
		unit, ok := one.(map[string]any)
		if name, _ := unit["name"].(string); ok && unit["attempt"] != nil {
			begun = append(begun, name)
		}
	}
	if len(begun) == 0 {
		return ""
	}
	return "objects of its create steps: " + strings.Join(begun, ", ")
}
