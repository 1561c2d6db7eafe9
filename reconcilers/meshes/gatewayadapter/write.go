package gatewayadapter

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
)

// put applies a derived route, and returns its UID. uid is that of the existing route, and only that
// one is changed. If uid is empty, the route is created without force: if another owner has a route of
// that name, the error is a conflict, since its rules differ.
func put(ctx context.Context, c client.Client, want client.Object, uid types.UID) (types.UID, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", apply.Describe(want), err)
	}
	doc := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(doc.Object, "status")
	unstructured.RemoveNestedField(doc.Object, "metadata", "creationTimestamp")
	options := []client.ApplyOption{apply.FieldOwner}
	if uid != "" {
		doc.SetUID(uid)
		options = append(options, client.ForceOwnership)
	}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(doc), options...); err != nil {
		return "", fmt.Errorf("write %s: %w", apply.Describe(want), err)
	}
	return doc.GetUID(), nil
}

// delete deletes a derived route with this UID. A missing route, or another one of the same name, is
// not an error.
func (a *Adapter) delete(ctx context.Context, object gatewayapi.Object, uid types.UID) error {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	o.SetGroupVersionKind(gatewayv1.SchemeGroupVersion.WithKind(object.Kind))
	err := a.config.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", object, err)
	}
	return nil
}
