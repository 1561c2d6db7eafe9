package runners

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	core "k8s.io/client-go/kubernetes/typed/core/v1"

	"switchyard.dev/eventbus/wake"
	captureticket "switchyard.dev/sidecars/traffic/ticket"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/ticket"
)

// SecretName is the Secret with the keys, in the operator's namespace.
const SecretName = "job-runner-keys"

// The keys of the Secret: private keys in PKCS #8, and the certificate of the authority of runners; all in PEM.
const (
	TicketKey     = "ticket.key"
	AuthorityKey  = "authority.key"
	AuthorityCert = "authority.crt"
)

const (
	// authorityLife is that of the authority, which is not renewed: clients get it with each ticket, and it signs
	// names of runners only. certificateLife is that of the certificate of a runner.
	authorityLife   = 20 * 365 * 24 * time.Hour
	certificateLife = 24 * time.Hour
	// backdate allows for clocks that are behind.
	backdate = 5 * time.Minute
	// keysSoon and keysAgain are how often the Secret is read: while it cannot be, and else.
	keysSoon, keysAgain = time.Second, 30 * time.Second
	// ownerName is the Secret of the chart with which the keys are deleted.
	ownerName = "webhook-server-cert"
)

// Keys are those of the service. They are immutable.
type Keys struct {
	tickets ed25519.PrivateKey
	public  ticket.Keys
	// captures are the same public keys, for tickets of captures.
	captures captureticket.Keys
	signer   crypto.Signer
	cert     *x509.Certificate
	pem      []byte
}

// ParseKeys reads the data of the Secret.
func ParseKeys(data map[string][]byte) (*Keys, error) {
	tickets, err := privateKey[ed25519.PrivateKey](data, TicketKey)
	if err != nil {
		return nil, err
	}
	signer, err := privateKey[*ecdsa.PrivateKey](data, AuthorityKey)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data[AuthorityCert])
	if block == nil {
		return nil, fmt.Errorf("%s is no certificate in PEM", AuthorityCert)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", AuthorityCert, err)
	}
	if !signer.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s is not for %s", AuthorityCert, AuthorityKey)
	}
	public, err := ticket.KeysOf(tickets.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	captures, err := captureticket.KeysOf(tickets.Public().(ed25519.PublicKey))
	return &Keys{tickets, public, captures, signer, cert, data[AuthorityCert]}, err
}

// privateKey reads a private key of type K.
func privateKey[K any](data map[string][]byte, name string) (key K, err error) {
	block, _ := pem.Decode(data[name])
	if block == nil {
		return key, fmt.Errorf("%s is no key in PEM", name)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return key, fmt.Errorf("%s is no key in PKCS #8", name)
	}
	key, is := parsed.(K)
	if !is {
		return key, fmt.Errorf("%s is a key of type %T", name, parsed)
	}
	return key, nil
}

// NewKeys returns new keys, as data of the Secret.
func NewKeys(now time.Time) (map[string][]byte, error) {
	_, tickets, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := certificate(now, authorityLife)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: "switchyard authority of runners " + template.SerialNumber.Text(36)}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero, template.KeyUsage = true, true, true, x509.KeyUsageCertSign
	template.PermittedDNSDomainsCritical, template.PermittedDNSDomains = true, []string{client.Domain}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{AuthorityCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})}
	for name, key := range map[string]any{TicketKey: tickets, AuthorityKey: signer} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		data[name] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	return data, nil
}

// certificate returns the beginning of a certificate.
func certificate(now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	now = now.Truncate(time.Second) // as certificates have it
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-backdate), NotAfter: now.Add(life)}, err
}

// sign returns the certificate of the runner in a pod, in PEM: for its name, as a server, and for nothing else.
func (k *Keys) sign(podUID string, key crypto.PublicKey, now time.Time) (text []byte, expires time.Time, err error) {
	template, err := certificate(now, certificateLife)
	if err != nil {
		return nil, expires, err
	}
	name := client.Name(podUID)
	template.Subject, template.DNSNames = pkix.Name{CommonName: podUID}, []string{name}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, k.cert, key, k.signer)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), template.NotAfter, err
}

// record returns the signed message for a pod that the operator has created for a group. The key signs tickets too, which
// begin otherwise.
func record(group, pod types.UID) []byte {
	return fmt.Appendf(nil, "switchyard.dev/runner/v1\n%s\n%s", group, pod)
}

// proven reports whether a proof is the operator's for a pod of a group.
func (k *Keys) proven(group, pod types.UID, proof []byte) bool {
	public, is := k.tickets.Public().(ed25519.PublicKey)
	return is && ed25519.Verify(public, record(group, pod), proof)
}

// Keeper keeps the keys: any replica creates the Secret where it is missing, and all have the keys of the first one.
// It is safe for concurrent use.
type Keeper struct {
	// Secrets are those of the operator's namespace, in which users owe the rights to create Secrets, and to get this
	// one and that with which it is deleted.
	Secrets core.SecretInterface
	// ConfigMaps are those of the same namespace, with the rights to get and update TicketKeysName. Nil: the public keys
	// are published nowhere.
	ConfigMaps core.ConfigMapInterface
	// Logger logs errors.
	Logger *slog.Logger

	keys atomic.Pointer[Keys]
}

// Run reads the keys until ctx ends, and returns nil then.
func (k *Keeper) Run(ctx context.Context) error {
	wake.Keep(ctx, keysSoon, keysAgain, k.Ensure, func(err error) {
		k.Logger.Error("the keys of runners cannot be read or made; retrying", "error", err)
	})
	return nil
}

// Ensure reads the keys, and makes them where they are missing.
func (k *Keeper) Ensure(ctx context.Context) error {
	secret, err := k.Secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = k.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("read or make Secret %s: %w", SecretName, err)
	}
	keys, err := ParseKeys(secret.Data)
	if err != nil {
		return fmt.Errorf("the keys of runners in Secret %s cannot be used; delete it to have new ones made, and then the pods of runner groups: %w", SecretName, err)
	}
	k.keys.Store(keys)
	return k.publish(ctx, keys)
}

// create creates the Secret, and returns the existing one if there is one.
func (k *Keeper) create(ctx context.Context) (*corev1.Secret, error) {
	made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName}}
	owner, err := k.Secrets.Get(ctx, ownerName, metav1.GetOptions{})
	switch {
	case err == nil:
		made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID}}
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read Secret %s: %w", ownerName, err)
	}
	if made.Data, err = NewKeys(time.Now()); err != nil {
		return nil, err
	}
	secret, err := k.Secrets.Create(ctx, made, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return k.Secrets.Get(ctx, SecretName, metav1.GetOptions{})
	}
	if err == nil {
		k.Logger.Warn("new keys of runners were made. Delete the pods of runner groups that exist, if any: jobs do not reach them with these keys", "secret", SecretName)
	}
	return secret, err
}

var errNoKeys = errors.New("the manager does not have the keys of runners yet: try again")

// Authority returns the certificate that verifies runners, in PEM.
func (k *Keeper) Authority() ([]byte, error) {
	if keys := k.keys.Load(); keys != nil {
		return keys.pem, nil
	}
	return nil, errNoKeys
}

// Issue issues a ticket, and returns when it expires.
func (k *Keeper) Issue(c ticket.Claims) (string, time.Time, error) {
	if keys := k.keys.Load(); keys != nil {
		return ticket.Issue(keys.tickets, c, time.Now())
	}
	return "", time.Time{}, errNoKeys
}

// Signer returns what signs the records of pods in the status of a group. It implements jobrunnergroup.Signer.
func (k *Keeper) Signer() (proof func(group, pod types.UID) []byte, err error) {
	keys := k.keys.Load()
	if keys == nil {
		return nil, errNoKeys
	}
	return func(group, pod types.UID) []byte { return ed25519.Sign(keys.tickets, record(group, pod)) }, nil
}
