// Package signed issues and checks the credentials with which users of a control plane authenticate
// to tunnel proxies and to tunnel-api, without an account of the cluster: JSON Web Tokens (RFC 7519)
// signed with Ed25519 (RFC 8037), each for one user and one cluster, valid for at most ten minutes.
// It is pure: the clock is an argument.
//
// Only the control plane has the private key. Clusters have its public keys as a JSON Web Key Set
// (RFC 7517), in which each key has its thumbprint (RFC 7638) as ID. The header of a credential has a
// type of its own, so that no other token of such a key is accepted as one.
package signed

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tunnels/identity"
)

const (
	// Issuer is the issuer (iss) of all credentials. The issuer of an API server is a URL, so no
	// other token has it.
	Issuer = "switchyard:controlplane"
	// Lifetime is how long a credential is valid, and the longest that is accepted.
	Lifetime = 10 * time.Minute
	// skew is by how much the clock of the control plane may be ahead.
	skew = time.Minute
	// kind is the type (typ) in the header.
	kind = "switchyard-credential+jwt"
	// maxGroups bounds the groups of a user.
	maxGroups = 64
)

// Cluster is the cluster that a credential is for, as the control plane names it.
type Cluster struct{ Organisation, Name string }

// String returns the audience (aud) of credentials for the cluster.
func (c Cluster) String() string { return c.Organisation + "/" + c.Name }

// claims are those of a credential: iss, sub (the user's name), aud, iat, exp and groups.
type claims struct {
	jwt.Claims
	Groups []string `json:"groups,omitempty"`
}

// Issue returns a credential of a user for a cluster, and when it expires. The user has to be one
// of the cluster's organisation.
func Issue(key ed25519.PrivateKey, c Cluster, user identity.User, now time.Time) (credential string, expires time.Time, err error) {
	if err := belongs(c, user); err != nil {
		return "", time.Time{}, err
	}
	if len(key) != ed25519.PrivateKeySize {
		return "", time.Time{}, errors.New("the key is no Ed25519 private key")
	}
	public, err := published(key.Public())
	if err != nil {
		return "", time.Time{}, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: public.KeyID}}, (&jose.SignerOptions{}).WithType(kind))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign a credential: %w", err)
	}
	expires = now.Add(Lifetime).Truncate(time.Second)
	credential, err = jwt.Signed(signer).Claims(claims{Groups: user.Groups, Claims: jwt.Claims{
		Issuer: Issuer, Subject: user.Name, Audience: jwt.Audience{c.String()}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
	}}).Serialize()
	return credential, expires, err
}

// belongs returns why a user is not one of a cluster's organisation.
func belongs(c Cluster, user identity.User) error {
	group := crdv1.ControlPlanePrefix + c.Organisation
	prefix := group + ":"
	switch {
	case c.Organisation == "" || c.Name == "" || strings.ContainsAny(c.Organisation, "/:"):
		return fmt.Errorf("the cluster %q has no valid organisation and name", c)
	case !strings.HasPrefix(user.Name, prefix) || user.Name == prefix:
		return fmt.Errorf("the credential is for user %q: only names that begin with %q are accepted", user.Name, prefix)
	case len(user.Groups) > maxGroups:
		return fmt.Errorf("the credential has %d groups: at most %d are accepted", len(user.Groups), maxGroups)
	}
	for _, g := range user.Groups {
		if g != group && (!strings.HasPrefix(g, prefix) || g == prefix) {
			return fmt.Errorf("the credential has group %q: only %q and groups that begin with %q are accepted", g, group, prefix)
		}
	}
	return nil
}

// UnknownKeyError is the error of a credential that none of the keys has signed.
type UnknownKeyError struct{ ID string }

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("no key of the control plane that this cluster accepts has signed the credential (key %.64q): request another one", e.ID)
}

// Check returns the user of a credential for a cluster, or why it is refused.
func (k Keys) Check(c Cluster, credential string, now time.Time) (identity.User, error) {
	token, err := jwt.ParseSigned(credential, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(token.Headers) != 1 {
		return identity.User{}, errors.New("the credential is not a token signed with Ed25519")
	}
	header := token.Headers[0]
	i := slices.IndexFunc(k.set.Keys, func(key jose.JSONWebKey) bool { return key.KeyID == header.KeyID })
	if i < 0 {
		return identity.User{}, &UnknownKeyError{header.KeyID}
	}
	var got claims
	if err := token.Claims(k.set.Keys[i].Key, &got); err != nil {
		return identity.User{}, errors.New("the signature of the credential is not valid, or its claims cannot be read")
	}
	if header.ExtraHeaders[jose.HeaderType] != kind || got.Issuer != Issuer {
		return identity.User{}, errors.New("the token is signed by the control plane, but is no credential for tunnels")
	}
	if len(got.Audience) != 1 || got.Audience[0] != c.String() {
		return identity.User{}, fmt.Errorf("the credential is for cluster %.200q: this is cluster %q of the control plane", got.Audience, c)
	}
	if err := timely(got.Claims, now); err != nil {
		return identity.User{}, err
	}
	user := identity.User{Name: got.Subject, Groups: got.Groups}
	if err := belongs(c, user); err != nil {
		return identity.User{}, err
	}
	return user, nil
}

// timely returns why a credential is not valid now.
func timely(got jwt.Claims, now time.Time) error {
	if got.Expiry == nil || got.IssuedAt == nil {
		return errors.New("the credential does not state when it was issued and when it expires")
	}
	issued, expires := got.IssuedAt.Time(), got.Expiry.Time()
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case !now.Before(expires):
		return fmt.Errorf("the credential expired at %s: request another one", stamp(expires))
	case expires.Sub(issued) > Lifetime:
		return fmt.Errorf("the credential is valid for %s: at most %s is accepted", expires.Sub(issued), Lifetime)
	case issued.After(now.Add(skew)) || now.Add(skew).Before(got.NotBefore.Time()):
		return fmt.Errorf("the credential is not valid before %s, and here it is %s: set the clocks of the control plane and of the cluster's nodes", stamp(issued), stamp(now))
	}
	return nil
}

// maxKeys bounds a key set: one key signs, the others are being replaced.
const maxKeys = 16

// Keys are the public keys of a control plane. The zero value has none.
type Keys struct{ set jose.JSONWebKeySet }

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

// KeysOf returns a set of public keys.
func KeysOf(public ...ed25519.PublicKey) (Keys, error) {
	var k Keys
	for _, p := range public {
		if len(p) != ed25519.PublicKeySize {
			return Keys{}, fmt.Errorf("a public key of Ed25519 has %d bytes, this one %d", ed25519.PublicKeySize, len(p))
		}
		key, err := published(p)
		if err != nil {
			return Keys{}, err
		}
		k.set.Keys = append(k.set.Keys, key)
	}
	if len(k.set.Keys) > maxKeys {
		return Keys{}, fmt.Errorf("there are %d keys of the control plane: at most %d are accepted", len(k.set.Keys), maxKeys)
	}
	return k, nil
}

// ParseKeys reads a JSON Web Key Set. All of its keys have to be public keys of Ed25519; their IDs
// are derived from the keys, and not read.
func ParseKeys(text []byte) (Keys, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return Keys{}, fmt.Errorf("the keys of the control plane are no JSON Web Key Set: %w", err)
	}
	var all []ed25519.PublicKey
	for _, key := range set.Keys {
		public, is := key.Key.(ed25519.PublicKey)
		if !is {
			return Keys{}, fmt.Errorf("key %.64q of the control plane is no public key of Ed25519", key.KeyID)
		}
		all = append(all, public)
	}
	return KeysOf(all...)
}

// String returns the set as a JSON Web Key Set.
func (k Keys) String() string {
	text, err := json.Marshal(k.set)
	if err != nil || len(k.set.Keys) == 0 {
		return `{"keys":[]}`
	}
	return string(text)
}
