package tokens

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/rest"
)

// How often the API server is asked for its keys, and how long that may take: they change
// when somebody rotates them, and strangers may name keys that there are not as often as
// they like.
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

	mu     sync.Mutex
	known  map[string]jose.JSONWebKey
	looked time.Time
	failed error
}

// signature is what is known of a token's signature.
type signature int

const (
	// unknown: the keys cannot be had, or the token names none. Only the API server can say.
	unknown signature = iota
	valid
	forged
)

// check reports whether the API server has signed a token.
func (k *keys) check(ctx context.Context, token string) signature {
	parsed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return forged
	}
	id := parsed.Signatures[0].Header.KeyID
	if id == "" {
		return unknown
	}
	key, whole := k.find(ctx, id)
	switch {
	case key == nil && whole:
		return forged
	case key == nil:
		return unknown
	}
	if _, err := parsed.Verify(key.Key); err != nil {
		return forged
	}
	return valid
}

// find returns a key; nil when it is not known, and whether all keys are.
func (k *keys) find(ctx context.Context, id string) (key *jose.JSONWebKey, whole bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, ok := k.known[id]
	if now := k.clock(); !ok && (k.looked.IsZero() || now.Sub(k.looked) >= keysAgain) {
		k.look(ctx)
		k.looked = now
		found, ok = k.known[id]
	}
	if !ok {
		return nil, k.failed == nil
	}
	return &found, true
}

// look reads the keys. k.mu is held: who comes meanwhile waits for the answer.
func (k *keys) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysWithin)
	defer cancel()
	var set jose.JSONWebKeySet
	text, err := k.read(ctx)
	if err == nil {
		err = json.Unmarshal(text, &set)
	}
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
