package authority

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/wake"
)

// Config configures a Keeper.
type Config struct {
	// Client reads and writes without a cache. Its scheme knows core/v1 and
	// admissionregistration/v1. Required.
	Client client.Client
	// Namespace is that of the Secrets. Default signadot.
	Namespace string
	// Validating names the ValidatingWebhookConfiguration; empty: there is none. If the cluster
	// lacks it that is logged, since the rights of authors are not checked then.
	Validating string
	// Programs are those beside the webhook that have leaves of the same authority.
	Programs []Program
	// Authority names a ConfigMap with the bundle in ca.crt, for people and their programs;
	// empty, or missing: the bundle is not written.
	Authority string
	// Policy has the lifetimes, and the hosts of the webhook's leaf. Hosts are required;
	// defaults: 30 days, 24 hours, a week, or a quarter of the authority's life.
	Policy Policy
	// Roots, if not nil, are kept equal to the bundle, for the connections of this process.
	Roots *trust.Roots
	// Every is the time between two checks. Default 10 s.
	Every time.Duration
	// Now returns the current time. Default time.Now.
	Now func() time.Time
	// Log takes what happens. Default: nowhere.
	Log *slog.Logger
}

// secretName is the name of the Secret, and registrationName that of the
// MutatingWebhookConfiguration, which the chart makes.
const (
	secretName       = "webhook-server-cert"
	registrationName = "signadot-mutating-webhook-configuration"
)

// NewRoots returns Roots for a Config. They trust no peer before a Keeper has run.
func NewRoots() *trust.Roots {
	return trust.NewRoots("Secret " + secretName + ", which this program keeps")
}

func (c *Config) setDefaults() {
	c.Namespace = cmp.Or(c.Namespace, "signadot")
	c.Policy.Authority = cmp.Or(c.Policy.Authority, 30*24*time.Hour)
	c.Policy.Leaf = cmp.Or(c.Policy.Leaf, 24*time.Hour)
	c.Policy.Settle = cmp.Or(c.Policy.Settle, min(7*24*time.Hour, c.Policy.Authority/4))
	c.Every = cmp.Or(c.Every, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Validate returns an error if the Config is not complete or not valid.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return errors.New("certs: no client")
	case len(c.Policy.Hosts) == 0:
		return errors.New("certs: no host the certificate is for")
	case c.Policy.Leaf > c.Policy.Authority/4:
		return fmt.Errorf("certs: a leaf of %s outlives the change of an authority of %s: make it at most a quarter",
			c.Policy.Leaf, c.Policy.Authority)
	case c.Policy.Settle > c.Policy.Authority/2-c.Policy.Leaf:
		return fmt.Errorf("certs: an authority of %s would end before the next one, which is announced at half of it and used %s later, has signed all leaves of %s",
			c.Policy.Authority, c.Policy.Settle, c.Policy.Leaf)
	}
	for _, p := range c.Programs {
		if p.Secret == "" || p.Secret == secretName || len(p.Hosts) == 0 {
			return fmt.Errorf("certs: a program needs a Secret of its own and hosts that its certificate is for: %+v", p)
		}
	}
	return nil
}

// Keeper keeps the certificates of the webhook and of the programs, and their authority. It
// is safe for use by several goroutines.
type Keeper struct {
	cfg Config

	mu      sync.Mutex
	signs   *ecdsa.PrivateKey // that of the authority
	served  *tls.Certificate  // once the API server trusts its authority
	missing bool              // Validating was named, and not there
	err     error             // of the last look
}

// NewKeeper returns a Keeper that has not looked yet.
func NewKeeper(cfg Config) (*Keeper, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Keeper{cfg: cfg, err: errors.New("certificates have not been checked yet")}, nil
}

// Run checks at once and then regularly until ctx ends. It returns nil: errors are retried,
// logged, and returned by Ready.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		err := k.Ensure(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.report(err)
		wake.Sleep(ctx, k.cfg.Every)
	}
}

// report keeps the outcome for Ready, and logs it when it is another than
// before.
func (k *Keeper) report(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && (k.err == nil || k.err.Error() != err.Error()) {
		k.cfg.Log.Error("cannot keep all certificates; retrying", "error", err)
	}
	k.err = err
}

// Ready returns nil while a valid certificate is served and the API server has the bundle, else
// the error. A later failure does not matter while the certificate is valid: the API server
// continues to trust it.
func (k *Keeper) Ready() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served != nil && k.cfg.Now().Before(k.served.Leaf.NotAfter) {
		return nil
	}
	return errors.Join(errors.New("the webhook has no usable certificate"), k.err)
}

// Certificate returns the one to serve; it has the form of tls.Config's
// GetCertificate.
func (k *Keeper) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served == nil {
		return nil, errors.New("the webhook has no certificate yet")
	}
	return k.served, nil
}

// Ensure looks once: it brings the Secret and the webhook configuration where
// Plan wants them, and serves the leaf found there.
func (k *Keeper) Ensure(ctx context.Context) error {
	const attempts = 5 // with another replica at the same work, one is enough
	for range attempts {
		if done, err := k.step(ctx); done || err != nil {
			return err
		}
	}
	return errors.New("the Secrets of certificates or the webhook configurations changed at every attempt to write them")
}

// step does the steps that are due; done is false when another check is needed.
func (k *Keeper) step(ctx context.Context) (done bool, err error) {
	secret, err := k.readSecret(ctx)
	if err != nil {
		return false, err
	}
	registered, err := k.readRegistrations(ctx)
	if err != nil {
		return false, err
	}
	programs, unread := k.readPrograms(ctx)
	now, state := k.cfg.Now(), read(secret.Data)
	people, unseen := k.readAuthority(ctx)
	published := append(registered.bundles(), programs.bundles()...)
	if people != nil {
		published = append(published, []byte(people.Data[trust.BundleFile]))
	}
	steps := Plan(now, Observed{State: state, Published: inAll(published), Registered: len(published) > 0}, k.cfg.Policy)
	if inSecret := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s == Publish }); len(inSecret) > 0 {
		next, err := change(now, state, inSecret, k.cfg.Policy)
		if err != nil {
			return false, err
		}
		if err := k.writeSecret(ctx, secret, next); err != nil {
			return false, retriable(err)
		}
		k.cfg.Log.Info("the authority, or the webhook's certificate, changed", "steps", inSecret)
		state = next
	}
	if state.Current == nil || state.Leaf == nil {
		return false, nil // an other replica is at it
	}
	if slices.Contains(steps, Publish) {
		if err := k.publish(ctx, registered, encode(bundle(state)...)); err != nil {
			return false, retriable(err)
		}
	}
	// A program that cannot be equipped does not keep the webhook from serving.
	if err := k.serve(state); err != nil {
		return false, err
	}
	wrote, err := k.equip(ctx, now, state, programs)
	told, untold := k.tellPeople(ctx, state, people)
	err = errors.Join(err, untold)
	return err == nil && len(steps) == 0 && !wrote && !told, errors.Join(err, unread, unseen)
}

// serve makes the leaf the one that Certificate returns. The API server has the bundle by now.
func (k *Keeper) serve(s State) error {
	cert, err := tls.X509KeyPair(s.Leaf.CertPEM, s.Leaf.KeyPEM)
	if err != nil {
		return err
	}
	if k.cfg.Roots != nil {
		if err := k.cfg.Roots.Set(encode(bundle(s)...)); err != nil {
			return err
		}
	}
	signs, err := parseKey(s.Current.KeyPEM)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served, k.signs = &cert, signs
	return nil
}

// Sign signs the SHA-256 of a message with the key of the authority, as ASN.1. A message must not
// begin as a certificate does.
func (k *Keeper) Sign(message []byte) ([]byte, error) {
	k.mu.Lock()
	key := k.signs
	k.mu.Unlock()
	if key == nil {
		return nil, errors.New("the operator has no certificate authority yet")
	}
	digest := sha256.Sum256(message)
	return ecdsa.SignASN1(rand.Reader, key, digest[:])
}

// tellMissing logs, once each time, that the validating webhook is not registered.
func (k *Keeper) tellMissing(missing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if missing && !k.missing {
		k.cfg.Log.Error("a ValidatingWebhookConfiguration is missing: the API server accepts objects without validation. Install the chart again",
			"configuration", k.cfg.Validating)
	}
	k.missing = missing
}

// retriable hides the error of a write that another replica was faster with: the next check
// reads its result.
func retriable(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// readSecret returns the Secret, without a resource version when there is none.
func (k *Keeper) readSecret(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: k.cfg.Namespace, Name: secretName}
	err := k.cfg.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Type:       corev1.SecretTypeTLS,
		}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read Secret %s, which holds the authority and the webhook's certificate: %w", key, err)
	}
	return secret, nil
}

// writeSecret creates or updates; an update is refused when the Secret has changed since it was
// read. Other data stays.
func (k *Keeper) writeSecret(ctx context.Context, secret *corev1.Secret, s State) error {
	data := lists.Merged(secret.Data)
	for _, name := range []string{dataLeafCert, dataLeafKey, dataCurrentCert, dataCurrentKey, dataNextCert, dataNextKey,
		dataNextPublished, dataRetired, dataPromoted} {
		delete(data, name)
	}
	maps.Copy(data, write(s))
	secret.Data = data
	if secret.ResourceVersion == "" {
		return k.cfg.Client.Create(ctx, secret)
	}
	return k.cfg.Client.Update(ctx, secret)
}
