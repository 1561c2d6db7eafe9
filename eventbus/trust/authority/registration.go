package authority

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
)

// registration is one of our webhook configurations.
type registration struct {
	object client.Object
	// bundles are the caBundles of its webhooks, in their order.
	bundles [][]byte
}

// registrations are those that exist.
type registrations []registration

func (k *Keeper) readRegistrations(ctx context.Context) (registrations, error) {
	var out registrations
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	for _, of := range []struct {
		kind, name string
		object     client.Object
		bundles    func() [][]byte
	}{
		{"MutatingWebhookConfiguration", registrationName, mutating, func() (out [][]byte) {
			for _, w := range mutating.Webhooks {
				out = append(out, w.ClientConfig.CABundle)
			}
			return out
		}},
		{"ValidatingWebhookConfiguration", k.cfg.Validating, validating, func() (out [][]byte) {
			for _, w := range validating.Webhooks {
				out = append(out, w.ClientConfig.CABundle)
			}
			return out
		}},
	} {
		if of.name == "" {
			continue
		}
		err := k.cfg.Client.Get(ctx, client.ObjectKey{Name: of.name}, of.object)
		if err == nil {
			out = append(out, registration{of.object, of.bundles()})
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("cannot read %s %s: %w", of.kind, of.name, err)
		}
		if of.object == client.Object(validating) {
			k.tellMissing(err != nil)
		}
	}
	return out, nil
}

// bundles returns what each webhook trusts.
func (r registrations) bundles() [][]byte {
	return slices.Concat(lists.Map(r, func(one registration) [][]byte { return one.bundles })...)
}

// inAll returns the certificates that are in all of some bundles.
func inAll(bundles [][]byte) []*x509.Certificate {
	var common []*x509.Certificate
	for i, b := range bundles {
		also := readBundle(b)
		if i == 0 {
			common = also
		}
		common = slices.DeleteFunc(common, func(c *x509.Certificate) bool { return !slices.ContainsFunc(also, c.Equal) })
	}
	return common
}

// publish writes the bundle into every webhook that has not got it, as JSON patches:
// fields of a newer API stay. It is refused when a configuration has changed since it was
// read.
func (k *Keeper) publish(ctx context.Context, all registrations, want []byte) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	for _, r := range all {
		patch := []operation{{"test", "/metadata/resourceVersion", r.object.GetResourceVersion()}}
		for i, have := range r.bundles {
			if !bytes.Equal(have, want) {
				patch = append(patch, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), want})
			}
		}
		if len(patch) == 1 {
			continue
		}
		text, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		if err := k.cfg.Client.Patch(ctx, r.object, client.RawPatch(types.JSONPatchType, text)); err != nil {
			return fmt.Errorf("cannot write the certificate authorities for the API server (%T %s): %w", r.object, r.object.GetName(), err)
		}
		k.cfg.Log.Info("the API server has the certificate authorities", "configuration", r.object.GetName())
	}
	return nil
}
