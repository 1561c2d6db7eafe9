package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tunnels/workstation"
)

// The webhook configurations into which the operator writes the certificates of its authority
// (sidecars/certs). Its Secret has the key too, and is nobody's to read.
const (
	mutatingWebhook   = "signadot-mutating-webhook-configuration"
	validatingWebhook = "signadot-validating-webhook-configuration"
)

// refresh reads whom to trust.
func (p *place) refresh(ctx context.Context) error {
	if p.ca != "" {
		bundle, err := readBundle(p.ca)
		if err == nil {
			err = p.roots.Set(bundle)
		}
		return workstation.Final(err)
	}
	config, err := p.access()
	if err != nil {
		return workstation.Final(fmt.Errorf("whom to trust is read from the cluster, or from the file of --ca: %w", err))
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return workstation.Final(fmt.Errorf("the kubeconfig cannot be used: %w", err))
	}
	bundle, err := published(ctx, client)
	if err != nil {
		return err
	}
	return workstation.Final(p.roots.Set(bundle))
}

// readBundle reads the certificates of authorities from a file.
func readBundle(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > trust.MaxBundle {
		return nil, fmt.Errorf("%s has more bytes than a bundle of authorities", path)
	}
	return os.ReadFile(path)
}

// published returns the authority that the operator has published.
func published(ctx context.Context, client kubernetes.Interface) ([]byte, error) {
	hooks := client.AdmissionregistrationV1()
	var bundle []byte
	validating, err := hooks.ValidatingWebhookConfigurations().Get(ctx, validatingWebhook, metav1.GetOptions{})
	if err == nil && len(validating.Webhooks) > 0 {
		bundle = validating.Webhooks[0].ClientConfig.CABundle
	}
	if len(bundle) == 0 {
		mutating, other := hooks.MutatingWebhookConfigurations().Get(ctx, mutatingWebhook, metav1.GetOptions{})
		if other == nil && len(mutating.Webhooks) > 0 {
			bundle = mutating.Webhooks[0].ClientConfig.CABundle
		}
		err = errors.Join(err, other)
	}
	switch {
	case len(bundle) > 0:
		return bundle, nil
	case apierrors.IsForbidden(err) || forbidden(err):
		return nil, workstation.Final(fmt.Errorf("whom to trust is not known: you may not get the ValidatingWebhookConfiguration %s, whose caBundle is the operator's authority. Ask for that right, or for the authority as a file for --ca", validatingWebhook))
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read the operator's authority from the cluster: %w", err)
	}
	return nil, workstation.Final(fmt.Errorf("whom to trust is not known: the cluster has no webhook configuration of the operator with a caBundle. Install the operator, or give its authority as a file with --ca"))
}

// forbidden reports whether one of several errors is that something may not be done.
func forbidden(err error) bool {
	var several interface{ Unwrap() []error }
	if !errors.As(err, &several) {
		return false
	}
	for _, one := range several.Unwrap() {
		if apierrors.IsForbidden(one) {
			return true
		}
	}
	return false
}
