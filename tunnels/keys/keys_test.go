package keys_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/keys"
)

func TestMain(m *testing.M) { world.Main(m) }

// ecdsaKey returns a private key that SSH reads and nobody here makes.
func ecdsaKey() ([]byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

func TestAllWhoMakeTheKeysAtOnceHaveTheSame(t *testing.T) {
	w := world.Shared(t)
	namespace := w.NewNamespace("operator")
	// The rights that the chart gives tunnel-api.
	user := "tunnel-api-" + namespace
	w.Grant(user, namespace,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{keys.SecretName}, Verbs: []string{"get"}})
	secrets := kubernetes.NewForConfigOrDie(w.As(user)).CoreV1().Secrets(namespace)

	if _, err := keys.Read(t.Context(), secrets); err == nil || !strings.Contains(err.Error(), "tunnel-api makes it") {
		t.Fatalf("without a Secret: %v", err)
	}
	var all [8]keys.Keys
	var making sync.WaitGroup
	for i := range all {
		making.Go(func() {
			var err error
			if all[i], err = keys.Ensure(context.Background(), secrets); err != nil {
				t.Error(err)
			}
		})
	}
	making.Wait()
	read, err := keys.Read(t.Context(), secrets)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range all {
		if t.Failed() || !bytes.Equal(k.SOCKS, read.SOCKS) || !bytes.Equal(k.SSHCA.PublicKey().Marshal(), read.SSHCA.PublicKey().Marshal()) ||
			!bytes.Equal(k.SSHHost.PublicKey().Marshal(), read.SSHHost.PublicKey().Marshal()) {
			t.Fatalf("maker %d has other keys than there are", i)
		}
	}
	if bytes.Equal(read.SSHCA.PublicKey().Marshal(), read.SSHHost.PublicKey().Marshal()) {
		t.Error("the host key signs users")
	}

	secret, err := w.Kube.CoreV1().Secrets(namespace).Get(t.Context(), keys.SecretName, metav1.GetOptions{})
	w.Must(err)
	for _, key := range []string{keys.SSHCA, keys.SSHHost, keys.SOCKS} {
		spoiled := secret.DeepCopy()
		spoiled.Data[key] = []byte("nonsense")
		if _, err := keys.Parse(spoiled.Data); err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "nonsense") {
			t.Errorf("with a spoiled %s: %v", key, err)
		}
	}
	curve, err := ecdsaKey()
	w.Must(err)
	for _, key := range []string{keys.SSHCA, keys.SSHHost} {
		another := secret.DeepCopy()
		another.Data[key] = curve
		if _, err := keys.Parse(another.Data); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("with a key of another kind as %s: %v", key, err)
		}
	}
}
