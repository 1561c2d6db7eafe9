// Package authority reads the certificates that the operator's programs are believed by.
package authority

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tunnels/workstation"
)

// Where the operator writes the certificates of its authority (eventbus/trust/authority): a ConfigMap of its
// namespace, and, as operators before it alone did, its webhook configurations. Its Secret has the
// key too, and users may not read it.
const (
	Name              = "signadot-authority"
	mutatingWebhook   = "signadot-mutating-webhook-configuration"
	validatingWebhook = "signadot-validating-webhook-configuration"
)

// Read reads the certificates of authorities from a file.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > trust.MaxBundle {
		return nil, fmt.Errorf("%s is too large for a bundle of certificate authorities", path)
	}
	return os.ReadFile(path)
}

// Published returns the authority that the operator in a namespace has published.
func Published(ctx context.Context, client kubernetes.Interface, namespace string) ([]byte, error) {
	where := fmt.Sprintf("ConfigMap %s in namespace %s", Name, namespace)
	told, err := reach.Again(func() (*corev1.ConfigMap, error) {
		return client.CoreV1().ConfigMaps(namespace).Get(ctx, Name, metav1.GetOptions{})
	})
	if err == nil && told.Data[trust.BundleFile] != "" {
		return []byte(told.Data[trust.BundleFile]), nil
	}
	if apierrors.IsUnauthorized(err) {
		return nil, workstation.Final(reach.Explained(fmt.Errorf("read %s: %w", where, err)))
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("read %s, which has the operator's authority: %w", where, err)
	}
	if bundle := ofWebhooks(ctx, client); len(bundle) > 0 {
		return bundle, nil
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, workstation.Final(fmt.Errorf("the operator's authority is unknown: you have no right to get %s, which contains it. Ask to be bound to Role signadot-developer there, or for the authority as a file for --ca", where))
	case err == nil:
		return nil, fmt.Errorf("the operator's authority is unknown: %s is still empty; the controller manager fills it", where)
	}
	return nil, workstation.Final(fmt.Errorf("the operator's authority is unknown: there is no %s. Install the operator with its tunnels, name its namespace with --namespace-of-operator, or give its authority as a file with --ca", where))
}

// ofWebhooks returns the authority by which the API server knows the operator's webhooks; nil
// where the user may not read them.
func ofWebhooks(ctx context.Context, client kubernetes.Interface) []byte {
	hooks := client.AdmissionregistrationV1()
	validating, err := hooks.ValidatingWebhookConfigurations().Get(ctx, validatingWebhook, metav1.GetOptions{})
	if err == nil && len(validating.Webhooks) > 0 && len(validating.Webhooks[0].ClientConfig.CABundle) > 0 {
		return validating.Webhooks[0].ClientConfig.CABundle
	}
	mutating, err := hooks.MutatingWebhookConfigurations().Get(ctx, mutatingWebhook, metav1.GetOptions{})
	if err == nil && len(mutating.Webhooks) > 0 {
		return mutating.Webhooks[0].ClientConfig.CABundle
	}
	return nil
}
