// Package issuer issues credentials to users of a control plane, with which they connect to the
// tunnel proxies of a cluster without a kubeconfig (tunnels/credential/signed), and has the public keys
// that clusters check them with. The private key never leaves this process.
//
// To rotate the key without refusing a user: Set the old key with the new public one, then, once all
// clusters have both, the new key with the old public one, and after ten minutes the new key alone. To
// revoke a key, Set another one alone: clusters end its sessions within a minute.
package issuer

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/controlplane-link/identity"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tunnels/credential/signed"
)

// Issuer issues credentials. It is safe for concurrent use. Make one with New.
type Issuer struct {
	mu      sync.Mutex
	key     ed25519.PrivateKey
	public  signed.Keys
	changed wake.Signal
}

// New returns an Issuer with keys as in Set.
func New(key ed25519.PrivateKey, also ...ed25519.PublicKey) (*Issuer, error) {
	i := &Issuer{}
	return i, i.Set(key, also...)
}

// Open returns an Issuer with the key of a file: Ed25519 in PKCS #8 and PEM.
func Open(file string) (*Issuer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the signing key cannot be read: %w", err)
	}
	parsed, err := ssh.ParseRawPrivateKey(text)
	key, is := parsed.(ed25519.PrivateKey)
	if err != nil || !is {
		return nil, fmt.Errorf("the signing key %s is not an Ed25519 private key in PKCS #8 and PEM: create one with openssl genpkey -algorithm ed25519", file)
	}
	return New(key)
}

// Set has credentials signed with a key. Clusters accept them and those of further keys, and no
// others.
func (i *Issuer) Set(key ed25519.PrivateKey, also ...ed25519.PublicKey) error {
	if len(key) != ed25519.PrivateKeySize {
		return errors.New("issuer: the key is no Ed25519 private key")
	}
	public, err := signed.KeysOf(append([]ed25519.PublicKey{key.Public().(ed25519.PublicKey)}, also...)...)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.public = key, public
	i.changed.Send()
	return nil
}

// Public returns the public keys, and a channel that is closed when they change.
func (i *Issuer) Public() (signed.Keys, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.public, i.changed.Next()
}

// Issue returns a credential of a user for a cluster of the user's organisation. The caller has
// authenticated the user, and checked that the user may use the cluster.
func (i *Issuer) Issue(c registry.Cluster, user *linkv1.Caller, now time.Time) (credential string, expires time.Time, err error) {
	as, err := identity.Of(c.Organisation, user)
	if err != nil {
		return "", time.Time{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return signed.Issue(i.key, signed.Cluster(c), as, now)
}

// authorityPath is the ConfigMap with the operator's authority (eventbus/trust/authority).
const authorityPath = "http://kubernetes/api/v1/namespaces/%s/configmaps/signadot-authority"

// Grant returns what a user needs to connect to a cluster: a credential, and the operator's
// authority, which is read through the link. kube sends requests to the cluster's API as the control
// plane itself, and namespace is the operator's. The conditions of Issue apply.
func (i *Issuer) Grant(ctx context.Context, kube http.RoundTripper, namespace string, c registry.Cluster, user *linkv1.Caller) (signed.Grant, error) {
	bundle, err := authority(ctx, kube, namespace)
	if err != nil {
		return signed.Grant{}, fmt.Errorf("the authority of the operator in cluster %q cannot be read: %w", c.Name, err)
	}
	credential, expires, err := i.Issue(c, user, time.Now())
	return signed.Grant{Credential: credential, Expires: expires, Authority: bundle}, err
}

// authority returns the certificates of the operator's authority, as PEM.
func authority(ctx context.Context, kube http.RoundTripper, namespace string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(authorityPath, namespace), nil)
	if err != nil {
		return "", err
	}
	answer, err := kube.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var config corev1.ConfigMap
	switch err := json.NewDecoder(io.LimitReader(answer.Body, trust.MaxBundle*2)).Decode(&config); {
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("ConfigMap signadot-authority: %s", answer.Status)
	case err != nil:
		return "", fmt.Errorf("ConfigMap signadot-authority: %w", err)
	case config.Data[trust.BundleFile] == "":
		return "", errors.New("ConfigMap signadot-authority is empty: the controller manager fills it")
	}
	return config.Data[trust.BundleFile], nil
}
