package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/rest"
)

// How often the API server is asked for its keys, and how long that can take: keys change when
// they are rotated, and strangers can name missing keys as often as they like.
const (
	keysAgain  = 10 * time.Second
	keysWithin = 4 * time.Second
)

// ReadKeys returns the keys with which an API server signs tokens of service accounts, as a
// JSON Web Key Set.
type ReadKeys func(ctx context.Context) ([]byte, error)

// PublishedKeys reads the keys where API servers publish them. Clusters give every service
// account the right to, by the ClusterRole system:service-account-issuer-discovery.
func PublishedKeys(client rest.Interface) ReadKeys {
	return func(ctx context.Context) ([]byte, error) {
		return client.Get().AbsPath("/openid/v1/jwks").SetHeader("Accept", "application/jwk-set+json").DoRaw(ctx)
	}
}

// algorithms are those with which API servers sign.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// keys are those of the API server, read when a token names one that is not known.
type keys struct {
	read  ReadKeys
	clock func() time.Time

	// reading is held while they are read.
	reading sync.Mutex

	mu     sync.Mutex
	known  map[string]jose.JSONWebKey
	looked time.Time
	failed error
}

// check reports whether the API server has signed a token: Foreign where the keys cannot be read. A
// token that names no key is checked with each.
func (k *keys) check(ctx context.Context, token string) Signature {
	parsed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return Forged
	}
	some, whole := k.find(ctx, parsed.Signatures[0].Header.KeyID)
	for _, key := range some {
		if _, err := parsed.Verify(key.Key); err == nil {
			return Signed
		}
	}
	if len(some) == 0 && !whole {
		return Foreign
	}
	return Forged
}

// find returns the keys that may have signed a token which names one, or none, and whether all
// keys are known. They are read when the one is not among those that are known.
func (k *keys) find(ctx context.Context, id string) (some []jose.JSONWebKey, whole bool) {
	if some, whole = k.named(id); len(some) > 0 {
		return some, whole
	}
	k.reading.Lock() // tokens with known keys do not wait
	defer k.reading.Unlock()
	if now := k.clock(); k.looked.IsZero() || now.Sub(k.looked) >= keysAgain {
		k.refresh(ctx)
		k.looked = now
	}
	return k.named(id)
}

// named returns the key with a name, or all where the name is empty.
func (k *keys) named(id string) (some []jose.JSONWebKey, whole bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id == "" {
		some = slices.Collect(maps.Values(k.known))
	} else if key, is := k.known[id]; is {
		some = append(some, key)
	}
	return some, k.failed == nil
}

// refresh reads the keys. k.reading is held.
func (k *keys) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysWithin)
	defer cancel()
	var set jose.JSONWebKeySet
	text, err := k.read(ctx)
	if err == nil {
		err = json.Unmarshal(text, &set)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed = err; err != nil {
		slog.Warn("the keys of the API server cannot be read, so it is asked about forged tokens too", "error", fmt.Errorf("GET /openid/v1/jwks: %w", err))
		return
	}
	k.known = make(map[string]jose.JSONWebKey, len(set.Keys))
	for _, key := range set.Keys {
		if key.Use == "" || key.Use == "sig" {
			k.known[key.KeyID] = key
		}
	}
}

// Signature is the result of checking a token without asking the API server about it.
type Signature int

// The results of Check.
const (
	// Foreign tokens claim no issuer or another one, or it cannot be found out which issuer and
	// keys the API server has. Only the API server knows whether they are valid.
	Foreign Signature = iota
	// Forged tokens claim the API server's issuer, and none of its published keys has signed
	// them.
	Forged
	// Signed tokens have been signed by the API server. They may have expired, or be of an
	// account that was deleted.
	Signed
)

// Issuer separates the tokens of an API server from others, by its discovery document
// and keys. It is safe for concurrent use.
type Issuer struct {
	discover func(ctx context.Context) ([]byte, error)
	keys     keys
	clock    func() time.Time

	// reading is held while the document is read.
	reading sync.Mutex
	looked  time.Time

	mu   sync.Mutex
	name string
}

// NewIssuer returns the Issuer of an API server. clock may be nil.
//
// It needs the right to read /.well-known/openid-configuration and /openid/v1/jwks, which
// clusters give every service account by the ClusterRole system:service-account-issuer-discovery.
// Without it all tokens are Foreign.
func NewIssuer(client rest.Interface, clock func() time.Time) *Issuer {
	if clock == nil {
		clock = time.Now
	}
	discover := func(ctx context.Context) ([]byte, error) {
		return client.Get().AbsPath("/.well-known/openid-configuration").DoRaw(ctx)
	}
	return &Issuer{discover: discover, clock: clock, keys: keys{read: PublishedKeys(client), clock: clock}}
}

// Check checks a token, and returns its claims, which can be trusted for Signed ones alone.
func (i *Issuer) Check(ctx context.Context, token string) (Claim, Signature) {
	claim, jwt := Claims(token)
	if !jwt || claim.Issuer == "" || claim.Issuer != i.issuer(ctx) {
		return claim, Foreign
	}
	return claim, i.keys.check(ctx, token)
}

// issuer returns the name of the issuer; empty where it cannot be read.
func (i *Issuer) issuer(ctx context.Context) string {
	if name := i.known(); name != "" {
		return name
	}
	i.reading.Lock()
	defer i.reading.Unlock()
	if now := i.clock(); i.known() == "" && (i.looked.IsZero() || now.Sub(i.looked) >= keysAgain) {
		i.refresh(ctx)
		i.looked = now
	}
	return i.known()
}

func (i *Issuer) known() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.name
}

// refresh reads the discovery document. i.reading is held.
func (i *Issuer) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysWithin)
	defer cancel()
	var document struct {
		Issuer string `json:"issuer"`
	}
	text, err := i.discover(ctx)
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err == nil && document.Issuer == "" {
		err = errors.New("the document names no issuer")
	}
	if err != nil {
		slog.Warn("cannot read the issuer of the API server's tokens; forged tokens are reviewed by the API server with all unknown ones",
			"path", "/.well-known/openid-configuration", "error", err, "remedy", "bind ClusterRole system:service-account-issuer-discovery to this service account")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.name = cmp.Or(document.Issuer, i.name)
}
