// Package pods finds the ready pods of a Deployment or a Rollout.
package pods

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/controlplane-link/reach/allow"
)

// Finder finds pods. Make one with New.
type Finder struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// New returns a Finder that needs the rights to get Deployments and Rollouts, and to list pods.
func New(reach *rest.Config) (*Finder, error) {
	kube, err := kubernetes.NewForConfig(reach)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	workloads, err := dynamic.NewForConfig(reach)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return &Finder{kube, workloads}, nil
}

var resources = map[allow.Form]schema.GroupVersionResource{
	allow.Deployment: {Group: "apps", Version: "v1", Resource: "deployments"},
	allow.Rollout:    {Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"},
}

// maxPods bounds the pods of one answer.
const maxPods = 64

// Find returns the addresses of the ready pods of a workload; none: it does not exist or has none.
func (f *Finder) Find(ctx context.Context, w allow.Target) ([]netip.Addr, error) {
	o, err := f.dynamic.Resource(resources[w.Form]).Namespace(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	selector, err := selectorOf(o)
	if err != nil || selector == "" { // an empty one would select every pod
		return nil, err
	}
	list, err := f.kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, FieldSelector: "status.phase=Running", Limit: 10 * maxPods})
	if err != nil {
		return nil, err
	}
	return Ready(list.Items), nil
}

// selectorOf returns the selector of a workload's pods, as text.
func selectorOf(o *unstructured.Unstructured) (string, error) {
	found, is, err := unstructured.NestedMap(o.Object, "spec", "selector")
	if err != nil || !is {
		return "", err
	}
	var labels metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found, &labels); err != nil {
		return "", err
	}
	selector, err := metav1.LabelSelectorAsSelector(&labels)
	if err != nil {
		return "", err
	}
	return selector.String(), nil
}

// Ready returns the addresses of the pods that are ready and do not terminate.
func Ready(all []corev1.Pod) (out []netip.Addr) {
	for _, p := range all {
		if p.DeletionTimestamp != nil || len(out) == maxPods {
			continue
		}
		for _, c := range p.Status.Conditions {
			if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
				continue
			}
			if a, err := netip.ParseAddr(p.Status.PodIP); err == nil {
				out = append(out, a.Unmap())
			}
		}
	}
	return out
}
