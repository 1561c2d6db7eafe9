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
	"crypto/ed25519"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"switchyard.dev/eventbus/jwks"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tunnels/identity"
)

const (
	// Issuer is the issuer (iss) of all credentials. The issuer of an API server is a URL, so no
	// other token has it.
	Issuer = "switchyard:controlplane"
	// Lifetime is how long a credential is valid, and the longest that is accepted.
	Lifetime = 10 * time.Minute
	// maxGroups bounds the groups of a user.
	maxGroups = 64
)

// Cluster is the cluster that a credential is for, as the control plane names it.
type Cluster struct{ Organisation, Name string }

// String returns the audience (aud) of credentials for the cluster.
func (c Cluster) String() string { return c.Organisation + "/" + c.Name }

var kind = jwks.Kind{Type: "switchyard-credential+jwt", Issuer: Issuer, Lifetime: Lifetime, Name: "credential", Signer: signer}

// signer is who signs credentials, in messages.
const signer = "the control plane"

// groups are the claims of a credential beside iss, sub (the user's name), aud, iat and exp.
type groups struct {
	Groups []string `json:"groups,omitempty"`
}

// Issue returns a credential of a user for a cluster, and when it expires. The user has to be one
// of the cluster's organisation.
func Issue(key ed25519.PrivateKey, c Cluster, user identity.User, now time.Time) (credential string, expires time.Time, err error) {
	if err := belongs(c, user); err != nil {
		return "", time.Time{}, err
	}
	expires = now.Add(Lifetime).Truncate(time.Second)
	credential, err = kind.Sign(key, jwt.Claims{
		Issuer: Issuer, Subject: user.Name, Audience: jwt.Audience{c.String()}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
	}, groups{user.Groups})
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
type UnknownKeyError = jwks.UnknownKeyError

// Keys are the public keys of a control plane. The zero value has none.
type Keys struct{ jwks.Set }

// Check returns the user of a credential for a cluster, or why it is refused.
func (k Keys) Check(c Cluster, credential string, now time.Time) (identity.User, error) {
	var more groups
	got, err := kind.Check(k.Set, credential, now, &more)
	if err != nil {
		return identity.User{}, err
	}
	if len(got.Audience) != 1 || got.Audience[0] != c.String() {
		return identity.User{}, fmt.Errorf("the credential is for cluster %.200q: this is cluster %q of the control plane", got.Audience, c)
	}
	user := identity.User{Name: got.Subject, Groups: more.Groups}
	if err := belongs(c, user); err != nil {
		return identity.User{}, err
	}
	return user, nil
}

// KeysOf returns a set of public keys.
func KeysOf(public ...ed25519.PublicKey) (Keys, error) {
	set, err := jwks.Of(signer, public...)
	return Keys{set}, err
}

// ParseKeys reads a JSON Web Key Set, as jwks.Parse does.
func ParseKeys(text []byte) (Keys, error) {
	set, err := jwks.Parse(signer, text)
	return Keys{set}, err
}
