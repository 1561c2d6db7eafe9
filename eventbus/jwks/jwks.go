// Package jwks signs JSON Web Tokens (RFC 7519) with Ed25519 (RFC 8037), and checks them with sets of public keys: JSON
// Web Key Sets (RFC 7517), in which each key has its thumbprint (RFC 7638) as ID. It is pure: the clock is an argument.
//
// The header of a token has the type of its Kind, so that no other token of the same key is accepted as one.
package jwks

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Kind is a kind of token.
type Kind struct {
	// Type is the type (typ) in the header, and Issuer the issuer (iss).
	Type, Issuer string
	// Lifetime is the longest that is accepted.
	Lifetime time.Duration
	// Name is the token in messages, such as "credential", and Signer its signer, such as "the control plane".
	Name, Signer string
}

const (
	// skew is by how much the clock of the signer may be ahead.
	skew = time.Minute
	// maxKeys bounds a key set: one key signs, the others are being replaced.
	maxKeys = 16
)

// UnknownKeyError is the error of a token that none of the keys has signed.
type UnknownKeyError struct {
	// ID is that of the key, and Kind the kind of the token.
	ID   string
	Kind Kind
}

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("no key of %s that this cluster accepts has signed the %s (key %.64q): request another one", e.Kind.Signer, e.Kind.Name, e.ID)
}

// Sign returns a token with claims, which are structures that are written together.
func (k Kind) Sign(key ed25519.PrivateKey, claims ...any) (string, error) {
	if len(key) != ed25519.PrivateKeySize {
		return "", errors.New("the key is no Ed25519 private key")
	}
	public, err := published(key.Public())
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: public.KeyID}}, (&jose.SignerOptions{}).WithType(jose.ContentType(k.Type)))
	if err != nil {
		return "", fmt.Errorf("sign a %s: %w", k.Name, err)
	}
	builder := jwt.Signed(signer)
	for _, c := range claims {
		builder = builder.Claims(c)
	}
	return builder.Serialize()
}

// Check returns the registered claims of a token that one of the keys has signed and that is valid now, and reads the
// others into claims. The caller checks the audience and the subject.
func (k Kind) Check(keys Set, token string, now time.Time, claims any) (jwt.Claims, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(parsed.Headers) != 1 {
		return jwt.Claims{}, fmt.Errorf("the %s is not a token signed with Ed25519", k.Name)
	}
	header := parsed.Headers[0]
	i := slices.IndexFunc(keys.set.Keys, func(key jose.JSONWebKey) bool { return key.KeyID == header.KeyID })
	if i < 0 {
		return jwt.Claims{}, &UnknownKeyError{header.KeyID, k}
	}
	var got jwt.Claims
	if err := parsed.Claims(keys.set.Keys[i].Key, &got, claims); err != nil {
		return jwt.Claims{}, fmt.Errorf("the signature of the %s is not valid, or its claims cannot be read", k.Name)
	}
	if header.ExtraHeaders[jose.HeaderType] != k.Type || got.Issuer != k.Issuer {
		return jwt.Claims{}, fmt.Errorf("the token is signed by %s, but is no %s", k.Signer, k.Name)
	}
	return got, k.timely(got, now)
}

// timely returns why a token is not valid now.
func (k Kind) timely(got jwt.Claims, now time.Time) error {
	if got.Expiry == nil || got.IssuedAt == nil {
		return fmt.Errorf("the %s does not state when it was issued and when it expires", k.Name)
	}
	issued, expires := got.IssuedAt.Time(), got.Expiry.Time()
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case !now.Before(expires):
		return fmt.Errorf("the %s expired at %s: request another one", k.Name, stamp(expires))
	case expires.Sub(issued) > k.Lifetime:
		return fmt.Errorf("the %s is valid for %s: at most %s is accepted", k.Name, expires.Sub(issued), k.Lifetime)
	case issued.After(now.Add(skew)) || now.Add(skew).Before(got.NotBefore.Time()):
		return fmt.Errorf("the %s is not valid before %s, and here it is %s: set the clocks of %s and of the cluster's nodes", k.Name, stamp(issued), stamp(now), k.Signer)
	}
	return nil
}

// Set is a set of public keys. The zero value has none.
type Set struct{ set jose.JSONWebKeySet }

// published returns a public key with its ID.
func published(public crypto.PublicKey) (jose.JSONWebKey, error) {
	key := jose.JSONWebKey{Key: public, Algorithm: string(jose.EdDSA), Use: "sig"}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return key, fmt.Errorf("the ID of a key: %w", err)
	}
	key.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	return key, nil
}

// Of returns a set of public keys; signer is the owner of the private ones, for messages.
func Of(signer string, public ...ed25519.PublicKey) (Set, error) {
	var k Set
	for _, p := range public {
		if len(p) != ed25519.PublicKeySize {
			return Set{}, fmt.Errorf("a public key of Ed25519 has %d bytes, this one %d", ed25519.PublicKeySize, len(p))
		}
		key, err := published(p)
		if err != nil {
			return Set{}, err
		}
		k.set.Keys = append(k.set.Keys, key)
	}
	if len(k.set.Keys) > maxKeys {
		return Set{}, fmt.Errorf("there are %d keys of %s: at most %d are accepted", len(k.set.Keys), signer, maxKeys)
	}
	return k, nil
}

// Parse reads a JSON Web Key Set. All of its keys have to be public keys of Ed25519; their IDs are derived from the
// keys, and not read.
func Parse(signer string, text []byte) (Set, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return Set{}, fmt.Errorf("the keys of %s are no JSON Web Key Set: %w", signer, err)
	}
	var all []ed25519.PublicKey
	for _, key := range set.Keys {
		public, is := key.Key.(ed25519.PublicKey)
		if !is {
			return Set{}, fmt.Errorf("key %.64q of %s is no public key of Ed25519", key.KeyID, signer)
		}
		all = append(all, public)
	}
	return Of(signer, all...)
}

// String returns the set as a JSON Web Key Set.
func (k Set) String() string {
	text, err := json.Marshal(k.set)
	if err != nil || len(k.set.Keys) == 0 {
		return `{"keys":[]}`
	}
	return string(text)
}
