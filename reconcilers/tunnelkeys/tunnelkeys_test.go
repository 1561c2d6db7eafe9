package tunnelkeys_test

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/reconcilers/tunnelkeys"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/keys"
)

func TestMain(m *testing.M) { world.Main(m) }

// Both Secrets are made, again when they were deleted, and are deleted with the certificate of the
// chart.
func TestKeysAreMadeAndBelongToTheCertificate(t *testing.T) {
	w := world.Shared(t)
	secrets := w.Kube.CoreV1().Secrets(w.NewNamespace("operator"))
	certificate, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tunnel-tls"}}, metav1.CreateOptions{})
	w.Must(err)
	for range 2 {
		k := tunnelkeys.Keeper{Secrets: secrets, Logger: slog.New(slog.DiscardHandler)}
		w.Must(k.Ensure(t.Context()))
		w.Must(k.Ensure(t.Context()))
		for _, name := range []string{keys.SecretName, keys.APISecretName} {
			made, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
			w.Must(err)
			if made.Type != corev1.SecretTypeOpaque || len(made.OwnerReferences) != 1 || made.OwnerReferences[0].UID != certificate.UID {
				t.Errorf("Secret %s is of type %s and belongs to %v", name, made.Type, made.OwnerReferences)
			}
			w.Must(secrets.Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	}
}
