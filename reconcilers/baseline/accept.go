package baseline

import (
	"fmt"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
)

// Reasons of conditions that speak of a baseline.
const (
	ReasonUnsupportedKind = "UnsupportedKind"
	ReasonInvalidSpec     = "InvalidSpec"
	// ReasonNamespaceNotAllowed is only reported on a sandbox or a RoutingConfig: the operator sees no
	// members in namespaces in which it is not allowed to work.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	ReasonBaselineNotFound    = "BaselineNotFound"
	// ReasonTemplateUnknown: the baseline exists, and the object that its pod template
	// comes from does not.
	ReasonTemplateUnknown = "TemplateUnknown"
	// ReasonNotSupportedYet: the input is right, this version cannot do it.
	ReasonNotSupportedYet = "NotSupportedYet"
)

// Accept returns whether a member in this namespace can have the workload as its baseline. at is the field
// that names it, for messages.
func Accept(at string, ref crdv1.ObjectRef, namespace string) condition.Condition {
	switch {
	case ref.Kind == "" || ref.Name == "":
		return condition.False(ReasonInvalidSpec, at+" has no kind or no name: name the workload")
	case ref.Namespace != "" && ref.Namespace != namespace:
		return condition.False(ReasonInvalidSpec, fmt.Sprintf(
			"%s is in namespace %s: a member is made beside its baseline, so put this object into that namespace", at, ref.Namespace))
	}
	return AcceptKind(ref)
}

// AcceptNamespace returns whether workloads of a namespace can be forked at all. A fork runs with the
// service account of its baseline and an image that its author chooses. Service accounts in the operator's
// namespace (operator) and in those of the cluster itself have permissions that authors of sandboxes must
// not get. Pods there get no sidecar, so no request could be routed to a fork either. at is the field that
// names the workload, for messages.
func AcceptNamespace(at, namespace, operator string) condition.Condition {
	if namespace == operator && operator != "" || slices.Contains(ofTheCluster(), namespace) {
		return condition.False(ReasonNamespaceNotAllowed, fmt.Sprintf(
			"%s is in namespace %s, which belongs to the operator or to the cluster itself: its workloads are not forked; name a workload of another namespace",
			at, namespace))
	}
	return condition.True("Accepted", "Workloads of the namespace can be forked.")
}

// ofTheCluster are the namespaces that every cluster has for itself.
func ofTheCluster() []string { return []string{"kube-system", "kube-node-lease", "kube-public"} }

// GroupOf returns the API group of a referenced workload: the part before the first slash, or all of it if
// there is none; "" for v1, the core group. Code that uses a reference and code that checks permissions
// for it must read it in the same way.
func GroupOf(ref crdv1.ObjectRef) string {
	if ref.APIVersion == "v1" {
		return ""
	}
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return group
}

// AcceptKind returns whether a workload of this kind can be a baseline.
func AcceptKind(ref crdv1.ObjectRef) condition.Condition {
	group := GroupOf(ref)
	switch {
	case ref.Kind == KindDeployment && group == "apps":
		return condition.True("Accepted", "A Deployment can be forked.")
	case ref.Kind == KindRollout && group == "argoproj.io":
		return condition.True("Accepted", "An Argo Rollout can be forked.")
	default:
		return condition.False(ReasonUnsupportedKind, fmt.Sprintf(
			"%s %s (%s) cannot be forked: only Deployment (apps/v1) and Argo Rollout can be forked",
			ref.Kind, ref.Name, ref.APIVersion))
	}
}
