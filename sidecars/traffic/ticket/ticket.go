// Package ticket issues and checks the tickets with which readers of captures authenticate to traffic-manager: tokens
// that the manager signs (eventbus/jwks), each for one capture, valid for at most ten minutes. It is pure: the clock is
// an argument.
package ticket

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"switchyard.dev/eventbus/jwks"
)

// Lifetime is how long a ticket is valid, and the longest that is accepted.
const Lifetime = 10 * time.Minute

const (
	signer   = "the operator"
	audience = "traffic-manager"
)

var kind = jwks.Kind{Type: "switchyard-traffic-ticket+jwt", Issuer: "switchyard:traffic", Lifetime: Lifetime, Name: "ticket", Signer: signer}

// Claims are what a ticket permits: to read one TrafficCapture.
type Claims struct {
	Namespace, Capture string
	// User is the name in the log of traffic-manager.
	User string
}

// private are the claims of a ticket beside iss, sub, aud, iat and exp.
type private struct {
	Namespace string `json:"namespace"`
	Capture   string `json:"capture"`
}

// Issue returns a ticket, and when it expires.
func Issue(key ed25519.PrivateKey, c Claims, now time.Time) (ticket string, expires time.Time, err error) {
	if err := c.valid(); err != nil {
		return "", time.Time{}, err
	}
	expires = now.Add(Lifetime).Truncate(time.Second)
	ticket, err = kind.Sign(key, jwt.Claims{
		Issuer: kind.Issuer, Subject: c.User, Audience: jwt.Audience{audience}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
	}, private{c.Namespace, c.Capture})
	return ticket, expires, err
}

// valid returns why no ticket has these claims.
func (c Claims) valid() error {
	if c.Namespace == "" || c.Capture == "" || c.User == "" {
		return fmt.Errorf("the ticket has no namespace, no capture or no user: namespace %.64q, capture %.253q, user %.253q", c.Namespace, c.Capture, c.User)
	}
	return nil
}

// Keys are the public keys of the operator. The zero value has none.
type Keys struct{ jwks.Set }

// KeysOf returns a set of public keys. Its String is what ParseKeys reads.
func KeysOf(public ...ed25519.PublicKey) (Keys, error) {
	set, err := jwks.Of(signer, public...)
	return Keys{set}, err
}

// ParseKeys reads a JSON Web Key Set, as jwks.Parse does.
func ParseKeys(text []byte) (*Keys, error) {
	set, err := jwks.Parse(signer, text)
	return &Keys{set}, err
}

// Check returns the claims of a ticket that is valid now.
func (k Keys) Check(ticket string, now time.Time) (Claims, error) {
	var more private
	got, err := kind.Check(k.Set, ticket, now, &more)
	if err != nil {
		return Claims{}, err
	}
	if len(got.Audience) != 1 || got.Audience[0] != audience {
		return Claims{}, fmt.Errorf("the ticket is for %.64q, and this is %s", got.Audience, audience)
	}
	c := Claims{more.Namespace, more.Capture, got.Subject}
	return c, c.valid()
}

// Permits returns nil if the claims permit to read a capture, and otherwise why they do not.
func (c Claims) Permits(namespace, capture string) error {
	if namespace == "" || capture == "" || c.Namespace != namespace || c.Capture != capture {
		return fmt.Errorf("the ticket is for TrafficCapture %.64s/%.253s, and this is about %.64q/%.253q", c.Namespace, c.Capture, namespace, capture)
	}
	return nil
}
