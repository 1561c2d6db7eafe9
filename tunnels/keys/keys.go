// Package keys keeps the keys that all tunnel proxies and tunnel-api share, in one Secret of
// the operator's namespace: what signs certificates of SSH users, the host key of every
// proxy, and what credentials for SOCKS5 are made with.
//
// tunnel-api makes the Secret when it is not there (Ensure), which takes the rights to create
// Secrets and to get this one; tunnel proxies read it (Read). Keys are never changed: to have new
// ones, delete the Secret and restart both. Certificates and credentials of minutes end with them, and
// known_hosts files have to be written anew.
package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// SecretName is the name of the Secret, in the operator's namespace.
const SecretName = "tunnel-keys"

// The keys of the Secret.
const (
	// SSHCA signs certificates of users: an ed25519 private key as PEM.
	SSHCA = "ssh-ca"
	// SSHHost is what every proxy shows to SSH clients: an ed25519 private key as PEM.
	SSHHost = "ssh-host"
	// SOCKS has the bytes that credentials for SOCKS5 are made with.
	SOCKS = "socks"
)

// socksBytes is how long the key for SOCKS5 is.
const socksBytes = 32

// Keys are what the Secret has.
type Keys struct {
	// SSHCA signs certificates of users, and SSHHost is the host key of all proxies.
	SSHCA, SSHHost ssh.Signer
	// SOCKS is what credentials for SOCKS5 are made with.
	SOCKS []byte
}

// Read returns the keys of the Secret.
func Read(ctx context.Context, secrets client.SecretInterface) (Keys, error) {
	secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Keys{}, fmt.Errorf("Secret %s is missing: tunnel-api makes it when it starts; is that running? (%w)", SecretName, err)
	}
	if err != nil {
		return Keys{}, fmt.Errorf("read Secret %s: %w", SecretName, err)
	}
	return Parse(secret.Data)
}

// Ensure returns the keys of the Secret, which it makes when there is none. Of several that
// make it at once, all return what the first one made.
func Ensure(ctx context.Context, secrets client.SecretInterface) (Keys, error) {
	secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if err == nil {
		return Parse(secret.Data)
	}
	if !apierrors.IsNotFound(err) {
		return Keys{}, fmt.Errorf("read Secret %s: %w", SecretName, err)
	}
	data, err := New()
	if err != nil {
		return Keys{}, err
	}
	_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName}, Data: data}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return Read(ctx, secrets)
	}
	if err != nil {
		return Keys{}, fmt.Errorf("create Secret %s: %w", SecretName, err)
	}
	return Parse(data)
}

// New returns the data of a Secret with new keys.
func New() (map[string][]byte, error) {
	data := map[string][]byte{SOCKS: make([]byte, socksBytes)}
	_, _ = rand.Read(data[SOCKS]) // never fails
	for name, about := range map[string]string{SSHCA: "signs users of tunnel proxies", SSHHost: "tunnel proxies"} {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make the key %s: %w", name, err)
		}
		block, err := ssh.MarshalPrivateKey(private, about)
		if err != nil {
			return nil, fmt.Errorf("write the key %s: %w", name, err)
		}
		data[name] = pem.EncodeToMemory(block)
	}
	return data, nil
}

// Parse reads the data of the Secret.
func Parse(data map[string][]byte) (Keys, error) {
	const todo = "delete the Secret, and restart tunnel-api, which makes it anew"
	k := Keys{SOCKS: data[SOCKS]}
	if len(k.SOCKS) != socksBytes {
		return Keys{}, fmt.Errorf("Secret %s: key %s has %d bytes, not %d: %s", SecretName, SOCKS, len(k.SOCKS), socksBytes, todo)
	}
	for name, to := range map[string]*ssh.Signer{SSHCA: &k.SSHCA, SSHHost: &k.SSHHost} {
		signer, err := ssh.ParsePrivateKey(data[name])
		if err != nil || signer.PublicKey().Type() != ssh.KeyAlgoED25519 {
			return Keys{}, fmt.Errorf("Secret %s: key %s is no ed25519 private key: %s", SecretName, name, todo)
		}
		*to = signer
	}
	return k, nil
}
