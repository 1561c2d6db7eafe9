// Package tunnelkeys has the keys of tunnel-api and the tunnel proxies made, so that neither of these
// needs a right to write Secrets.
package tunnelkeys

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/tunnels/keys"
)

// How often the keys of tunnels are checked: soon while they are missing, rarely once they exist.
const (
	keysSoon  = 2 * time.Second
	keysAgain = 30 * time.Second
)

// tunnelCertificate is the Secret of the chart with the certificate of tunnel-api and the tunnel
// proxies. Their keys are deleted with it.
const tunnelCertificate = "tunnel-tls"

// Keeper makes the keys when they are missing.
type Keeper struct {
	// Secrets are those of the operator's namespace.
	Secrets client.SecretInterface
	// Logger logs errors.
	Logger *slog.Logger
}

// Run checks the keys until ctx ends, and returns nil then. It runs on the leader.
func (k Keeper) Run(ctx context.Context) error {
	wake.Keep(ctx, keysSoon, keysAgain, k.Ensure, func(err error) {
		k.Logger.Error("cannot make the keys of tunnel-api and the tunnel proxies; retrying", "error", err)
	})
	return nil
}

// Ensure makes the keys when they are missing.
func (k Keeper) Ensure(ctx context.Context) error {
	var owners []metav1.OwnerReference
	certificate, err := k.Secrets.Get(ctx, tunnelCertificate, metav1.GetOptions{})
	if err == nil {
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: certificate.Name, UID: certificate.UID})
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read Secret %s: %w", tunnelCertificate, err)
	}
	_, err = keys.Ensure(ctx, k.Secrets, owners...)
	return err
}
