package gatewayadapter

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/policyreader"
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

// ReasonPoliciesUnreadable: policies of a kind that the cluster has cannot be read, so it is not
// known which routes may be derived.
const ReasonPoliciesUnreadable = "PoliciesUnreadable"

// readPolicies reads the policies, and returns the generation of each, by UID. Where a kind cannot
// be read, it sets the trouble if policies are a reason to derive nothing, and otherwise keeps
// the policies that it has read before.
func (c *cluster) readPolicies(ctx context.Context, from client.Reader, kinds meshes.Kinds) (map[types.UID]int64, error) {
	generations := map[types.UID]int64{}
	var all []policies.Policy
	for _, kind := range c.settings.PolicyKinds {
		found, err := policyreader.List(ctx, from, kinds, kind)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && c.settings.Policies == policies.Report:
			return c.salient.policies, nil
		case err != nil:
			c.trouble = new(condition.False(ReasonPoliciesUnreadable, fmt.Sprintf("Objects of kind %s cannot be read, so no routes are derived: %v. Allow the controller manager to list them, or set policies.routes to report.", kind.GroupKind(), err)))
			return nil, nil
		}
		for i := range found {
			generations[found[i].GetUID()] = found[i].GetGeneration()
			all = append(all, policies.Read(kind, found[i].Object))
		}
	}
	c.policies = all
	return generations, nil
}

// ReasonNotAccepted: an implementation does not take a derived route as it takes the original.
const ReasonNotAccepted = "NotAccepted"

// accepted returns the status and message of a derived route from the conditions that implementations
// set: meshes.StatusPending while one has not set a condition that it set to True on the original,
// ReasonNotAccepted if it is False on the derived route, and empty if all agree. Linkerd sets no
// observedGeneration. Conditions that are missing or not True on the original are not compared.
func accepted(baseline, derived *route) (status, message string) {
	for _, said := range baseline.statuses {
		for _, t := range []string{string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteConditionResolvedRefs)} {
			if !meta.IsStatusConditionTrue(said.Conditions, t) {
				continue
			}
			c := conditionOf(derived, said, t)
			switch {
			case c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration < derived.meta.Generation || c.Status == metav1.ConditionUnknown:
				status = meshes.StatusPending
			case c.Status == metav1.ConditionFalse:
				return ReasonNotAccepted, fmt.Sprintf("%s reports that %s is not %s, though %s is: %s (%s). Requests with the key fail or reach the baseline.",
					said.ControllerName, derived.object, t, baseline.object, c.Message, c.Reason)
			}
		}
	}
	return status, ""
}

// conditionOf returns a condition of a route for the parent and the implementation of which
// another route speaks; nil when it has none.
func conditionOf(r *route, like gatewayv1.RouteParentStatus, t string) *metav1.Condition {
	for _, said := range r.statuses {
		if said.ControllerName == like.ControllerName && reflect.DeepEqual(said.ParentRef, like.ParentRef) {
			return meta.FindStatusCondition(said.Conditions, t)
		}
	}
	return nil
}
