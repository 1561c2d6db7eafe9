package keys_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/keys"
)

func TestMain(m *testing.M) { world.Main(m) }

// ecdsaKey returns a private key that SSH reads, of a kind that the package does not create.
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

// operator makes a namespace, and returns its Secrets as the controller manager, tunnel-api, a proxy
// and an administrator reach them, with the rights that the chart gives.
func operator(t *testing.T) (manager, api, proxy, all client.SecretInterface) {
	w := world.Shared(t)
	namespace := w.NewNamespace("operator")
	as := func(user string, rules ...rbacv1.PolicyRule) client.SecretInterface {
		for i := range rules {
			rules[i].APIGroups, rules[i].Resources = []string{""}, []string{"secrets"}
		}
		w.Grant(user+"-"+namespace, namespace, rules...)
		return kubernetes.NewForConfigOrDie(w.As(user + "-" + namespace)).CoreV1().Secrets(namespace)
	}
	return as("manager", rbacv1.PolicyRule{Verbs: []string{"create"}},
			rbacv1.PolicyRule{ResourceNames: []string{keys.APISecretName, keys.SecretName}, Verbs: []string{"get", "update"}}),
		as("tunnel-api", rbacv1.PolicyRule{ResourceNames: []string{keys.APISecretName}, Verbs: []string{"get"}}),
		as("tunnel-proxy", rbacv1.PolicyRule{ResourceNames: []string{keys.SecretName}, Verbs: []string{"get"}}),
		w.Kube.CoreV1().Secrets(namespace)
}

// ensure has several make the keys at once, and returns what all have then.
func ensure(t *testing.T, secrets client.SecretInterface) keys.Signing {
	t.Helper()
	var all [8]keys.Signing
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
	if t.Failed() {
		t.FailNow()
	}
	for i, k := range all {
		if !bytes.Equal(k.SOCKS, all[0].SOCKS) || !bytes.Equal(k.SSHCA.PublicKey().Marshal(), all[0].SSHCA.PublicKey().Marshal()) ||
			!bytes.Equal(k.Host.Marshal(), all[0].Host.Marshal()) {
			t.Fatalf("maker %d has other keys than there are", i)
		}
	}
	return all[0]
}

// fit fails unless tunnel-api reads these keys, and a proxy has what tunnel-api has the other half of.
func fit(t *testing.T, signing keys.Signing, api, proxy client.SecretInterface) {
	t.Helper()
	its, err := keys.Await(t.Context(), slog.New(slog.DiscardHandler), api, keys.ReadSigning)
	if err != nil || !bytes.Equal(its.SSHCA.PublicKey().Marshal(), signing.SSHCA.PublicKey().Marshal()) {
		t.Fatalf("tunnel-api reads other keys than were made: %v", err)
	}
	read, err := keys.Read(t.Context(), proxy)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(signing.SOCKS, read.SOCKS) || !bytes.Equal(signing.SSHCA.PublicKey().Marshal(), read.Authority.Marshal()) ||
		!bytes.Equal(signing.Host.Marshal(), read.SSHHost.PublicKey().Marshal()) {
		t.Error("what proxies have does not fit what tunnel-api has")
	}
	if bytes.Equal(read.Authority.Marshal(), read.SSHHost.PublicKey().Marshal()) {
		t.Error("the host key signs users")
	}
}

func TestConcurrentEnsureReturnsTheSameKeys(t *testing.T) {
	manager, api, proxy, _ := operator(t)
	_, ofProxy := keys.Read(t.Context(), proxy)
	_, ofAPI := keys.ReadSigning(t.Context(), api)
	for _, err := range []error{ofProxy, ofAPI} {
		if err == nil || !strings.Contains(err.Error(), "controller managers makes it") {
			t.Fatalf("without a Secret: %v", err)
		}
	}
	fit(t, ensure(t, manager), api, proxy)
}

func TestEachHasItsOwnKeysOnly(t *testing.T) {
	manager, api, proxy, all := operator(t)
	// What an earlier release left, with everything in it.
	former, err := keys.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keys.SecretName}, Data: former}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fit(t, ensure(t, manager), api, proxy)
	for name, want := range map[string][]string{
		keys.SecretName:    {keys.SOCKS, keys.SSHCAPublic, keys.SSHHost},
		keys.APISecretName: {keys.SOCKS, keys.SSHCA, keys.SSHCAPublic, keys.SSHHostPublic},
	} {
		secret, err := all.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if have := slices.Sorted(maps.Keys(secret.Data)); !slices.Equal(have, slices.Sorted(slices.Values(want))) {
			t.Errorf("Secret %s has %q, not %q", name, have, want)
		}
	}
	if _, err := api.Get(t.Context(), keys.SecretName, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("tunnel-api reads the host key: %v", err)
	}
	if _, err := proxy.Get(t.Context(), keys.APISecretName, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a proxy reads the key that signs users: %v", err)
	}
	for _, secret := range []corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken},
		{ObjectMeta: metav1.ObjectMeta{Name: keys.APISecretName}},
	} {
		if _, err := api.Create(t.Context(), &secret, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("tunnel-api creates Secret %s: %v", secret.Name, err)
		}
	}
	if _, err := api.Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keys.APISecretName}}, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("tunnel-api updates its keys: %v", err)
	}
}

func TestASpoiledKeyIsNamed(t *testing.T) {
	data, err := keys.New()
	if err != nil {
		t.Fatal(err)
	}
	for key := range data {
		spoiled := maps.Clone(data)
		spoiled[key] = []byte("nonsense")
		_, ofProxy := keys.Parse(spoiled)
		_, ofAPI := keys.ParseSigning(spoiled)
		for _, err := range []error{ofProxy, ofAPI} {
			if err != nil && (!strings.Contains(err.Error(), "key "+key+" ") || strings.Contains(err.Error(), "nonsense")) {
				t.Errorf("with a spoiled %s: %v", key, err)
			}
		}
		if ofProxy == nil && ofAPI == nil {
			t.Errorf("it is not detected that %s is invalid", key)
		}
	}
	curve, err := ecdsaKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{keys.SSHCA, keys.SSHHost} {
		another := maps.Clone(data)
		another[key] = curve
		_, ofProxy := keys.Parse(another)
		_, ofAPI := keys.ParseSigning(another)
		if ofProxy == nil && ofAPI == nil {
			t.Errorf("it is not detected that %s is a key of another kind", key)
		}
	}
}
