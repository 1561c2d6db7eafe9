// Package keys keeps the keys of tunnel proxies and tunnel-api in two Secrets of the operator's
// namespace, so that each program reads only the keys that it needs:
//
//	tunnel-keys      for every proxy: the host key, the public key of the authority for SSH users,
//	                 and the key of credentials for SOCKS5
//	tunnel-api-keys  for tunnel-api: the private key of that authority, the public host key, and
//	                 the same key for SOCKS5
//
// The controller manager creates both (Ensure), which requires the rights to create Secrets and
// to get and update these two. Tunnel proxies (Read) and tunnel-api (ReadSigning) read their own
// and write neither. Keys are never changed. To rotate them, delete both Secrets, and restart
// tunnel-api and the proxies: certificates and credentials become invalid, and known_hosts files
// have to be written again.
package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/eventbus/wake"
)

// The Secrets, in the operator's namespace: those of the proxies and of tunnel-api.
const (
	SecretName    = "tunnel-keys"
	APISecretName = "tunnel-api-keys"
)

// The keys of the Secrets.
const (
	// SSHCA signs certificates of users: an ed25519 private key as PEM.
	SSHCA = "ssh-ca"
	// SSHHost is the host key of every proxy: an ed25519 private key as PEM.
	SSHHost = "ssh-host"
	// SSHCAPublic and SSHHostPublic are their public halves, as lines of an authorized_keys file.
	SSHCAPublic   = "ssh-ca.pub"
	SSHHostPublic = "ssh-host.pub"
	// SOCKS is the key of credentials for SOCKS5.
	SOCKS = "socks"
)

// socksBytes is the length of the key for SOCKS5.
const socksBytes = 32

// Keys are the keys of a proxy.
type Keys struct {
	// SSHHost is the host key of all proxies, and Authority signs certificates of users.
	SSHHost   ssh.Signer
	Authority ssh.PublicKey
	// SOCKS is the key of credentials for SOCKS5.
	SOCKS []byte
}

// Signing are the keys of tunnel-api.
type Signing struct {
	// SSHCA signs certificates of users, and Host is the host key of all proxies.
	SSHCA ssh.Signer
	Host  ssh.PublicKey
	// SOCKS is the key of credentials for SOCKS5.
	SOCKS []byte
}

// Read returns the keys of a proxy.
func Read(ctx context.Context, secrets client.SecretInterface) (Keys, error) {
	data, err := read(ctx, secrets, SecretName)
	if err != nil {
		return Keys{}, err
	}
	return Parse(data)
}

// ReadSigning returns the keys of tunnel-api.
func ReadSigning(ctx context.Context, secrets client.SecretInterface) (Signing, error) {
	data, err := read(ctx, secrets, APISecretName)
	if err != nil {
		return Signing{}, err
	}
	return ParseSigning(data)
}

// read returns the data of a Secret.
func read(ctx context.Context, secrets client.SecretInterface, name string) (map[string][]byte, error) {
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("Secret %s is missing: the leader of the controller managers makes it; check that one runs (%w)", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name, err)
	}
	return secret.Data, nil
}

// within is how long Await waits.
const within = time.Minute

// Await calls read once a second until it succeeds, for a minute at most, and returns its
// last result: the controller manager may start at the same time as those that read its keys.
func Await[T any](ctx context.Context, logger *slog.Logger, secrets client.SecretInterface, read func(context.Context, client.SecretInterface) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		found, err := read(ctx, secrets)
		if err == nil {
			return found, nil
		}
		logger.Warn("the keys cannot be read yet", "error", err)
		if !wake.Sleep(ctx, time.Second) {
			return found, err
		}
	}
}

// Ensure returns the keys of tunnel-api. If there are none it creates them, and those of the
// proxies, in Secrets that are deleted with their owners. Concurrent calls all return the keys of
// the first one.
func Ensure(ctx context.Context, secrets client.SecretInterface, owners ...metav1.OwnerReference) (Signing, error) {
	secret, err := secrets.Get(ctx, APISecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = begin(ctx, secrets, owners)
	}
	if err != nil {
		return Signing{}, fmt.Errorf("read or make Secret %s: %w", APISecretName, err)
	}
	if _, whole := secret.Data[SSHHost]; whole {
		if err := share(ctx, secrets, secret, owners); err != nil {
			return Signing{}, err
		}
	}
	return ParseSigning(secret.Data)
}

// begin creates the Secret of tunnel-api with all keys, and returns the existing one if there is
// one.
func begin(ctx context.Context, secrets client.SecretInterface, owners []metav1.OwnerReference) (*corev1.Secret, error) {
	data, err := New()
	if err != nil {
		return nil, err
	}
	secret, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: APISecretName, OwnerReferences: owners}, Data: data}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return secrets.Get(ctx, APISecretName, metav1.GetOptions{})
	}
	return secret, err
}

// share moves the keys that only proxies need from a new Secret of tunnel-api into the Secret of proxies. It can
// be interrupted and repeated; concurrent writers write the same.
func share(ctx context.Context, secrets client.SecretInterface, all *corev1.Secret, owners []metav1.OwnerReference) error {
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName, OwnerReferences: owners}, Data: map[string][]byte{}}
	for _, key := range []string{SSHHost, SSHCAPublic, SOCKS} {
		theirs.Data[key] = all.Data[key]
	}
	_, err := secrets.Create(ctx, theirs, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // of previous keys, or of another replica
		_, err = secrets.Update(ctx, theirs, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Secret %s, without which tunnel proxies do not start: %w", SecretName, err)
	}
	ours := all.DeepCopy()
	delete(ours.Data, SSHHost)
	_, err = secrets.Update(ctx, ours, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) { // another replica has done it
		return fmt.Errorf("take the host key out of Secret %s: %w", APISecretName, err)
	}
	return nil
}

// New returns new keys: the data of both Secrets.
func New() (map[string][]byte, error) {
	data := map[string][]byte{SOCKS: make([]byte, socksBytes)}
	_, _ = rand.Read(data[SOCKS]) // never fails
	for _, one := range []struct{ private, public, about string }{
		{SSHCA, SSHCAPublic, "signs users of tunnel proxies"}, {SSHHost, SSHHostPublic, "tunnel proxies"},
	} {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make the key %s: %w", one.private, err)
		}
		block, err := ssh.MarshalPrivateKey(private, one.about)
		if err != nil {
			return nil, fmt.Errorf("write the key %s: %w", one.private, err)
		}
		half, err := ssh.NewPublicKey(public)
		if err != nil {
			return nil, fmt.Errorf("write the key %s: %w", one.public, err)
		}
		data[one.private], data[one.public] = pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(half)
	}
	return data, nil
}

// Parse reads the data of the proxies' Secret.
func Parse(data map[string][]byte) (k Keys, err error) {
	r := reader{SecretName, data, nil}
	k = Keys{SSHHost: r.private(SSHHost), Authority: r.public(SSHCAPublic), SOCKS: r.socks()}
	return k, r.err
}

// ParseSigning reads the data of the Secret of tunnel-api.
func ParseSigning(data map[string][]byte) (Signing, error) {
	r := reader{APISecretName, data, nil}
	s := Signing{SSHCA: r.private(SSHCA), Host: r.public(SSHHostPublic), SOCKS: r.socks()}
	return s, r.err
}

// reader reads the keys of a Secret, and keeps the first error.
type reader struct {
	secret string
	data   map[string][]byte
	err    error
}

func (r *reader) wrong(format string, values ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("Secret %s: %s: delete Secrets %s and %s, which the controller manager makes again, and restart tunnel-api and the tunnel proxies",
			r.secret, fmt.Sprintf(format, values...), SecretName, APISecretName)
	}
}

func (r *reader) private(key string) ssh.Signer {
	signer, err := ssh.ParsePrivateKey(r.data[key])
	if err != nil || signer.PublicKey().Type() != ssh.KeyAlgoED25519 {
		r.wrong("key %s is no ed25519 private key", key)
		return nil
	}
	return signer
}

func (r *reader) public(key string) ssh.PublicKey {
	public, _, _, _, err := ssh.ParseAuthorizedKey(r.data[key])
	if err != nil || public.Type() != ssh.KeyAlgoED25519 {
		r.wrong("key %s is no ed25519 public key", key)
		return nil
	}
	return public
}

func (r *reader) socks() []byte {
	if n := len(r.data[SOCKS]); n != socksBytes {
		r.wrong("key %s has %d bytes, not %d", SOCKS, n, socksBytes)
	}
	return r.data[SOCKS]
}
