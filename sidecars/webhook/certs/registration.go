package certs

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// registration is the webhook configuration; nil when there is none.
type registration admissionv1.MutatingWebhookConfiguration

func (k *Keeper) readRegistration(ctx context.Context) (*registration, error) {
	var found admissionv1.MutatingWebhookConfiguration
	err := k.cfg.Client.Get(ctx, client.ObjectKey{Name: k.cfg.Registration}, &found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read MutatingWebhookConfiguration %s: %w", k.cfg.Registration, err)
	}
	return (*registration)(&found), nil
}

// published gives the certificates that every webhook of the configuration
// trusts.
func (r *registration) published() []*x509.Certificate {
	if r == nil || len(r.Webhooks) == 0 {
		return nil
	}
	common := readBundle(r.Webhooks[0].ClientConfig.CABundle)
	for _, w := range r.Webhooks[1:] {
		also := readBundle(w.ClientConfig.CABundle)
		common = slices.DeleteFunc(common, func(c *x509.Certificate) bool { return !slices.ContainsFunc(also, c.Equal) })
	}
	return common
}

// publish writes the bundle into every webhook of the configuration, as a JSON
// patch: fields of a newer API stay. It is refused when the configuration has
// changed since it was read.
func (k *Keeper) publish(ctx context.Context, r *registration, bundle []byte) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	patch := []operation{{"test", "/metadata/resourceVersion", r.ResourceVersion}}
	for i := range r.Webhooks {
		patch = append(patch, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), bundle})
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	target := admissionv1.MutatingWebhookConfiguration(*r)
	if err := k.cfg.Client.Patch(ctx, &target, client.RawPatch(types.JSONPatchType, text)); err != nil {
		return fmt.Errorf("cannot tell the API server whom to trust (MutatingWebhookConfiguration %s): %w",
			k.cfg.Registration, err)
	}
	k.cfg.Log.Info("the API server is told whom to trust", "configuration", k.cfg.Registration)
	return nil
}
