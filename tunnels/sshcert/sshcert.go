// Package sshcert issues and verifies the certificates, valid for minutes, with which SSH clients
// authenticate to a tunnel proxy. It is pure: the clock and the source of random bytes are
// arguments.
//
// A certificate is one of a user (not of a host). Its only principal is the user's name as the
// cluster knows it, and an extension has the other fields that the API server needs to authorize
// the user. It has none of the extensions by which an SSH server would allow a terminal, an agent
// or X11, since the proxy offers none of them.
package sshcert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"switchyard.dev/tunnels/identity"
)

// Lifetime is how long a certificate is valid. A connection may last longer.
const Lifetime = 10 * time.Minute

// leeway is the tolerated difference between the clocks of the issuer and the verifier.
const leeway = time.Minute

// Extension has the user, as encoded by package identity.
const Extension = "identity@switchyard.dev"

// again is the remedy.
const again = "get one with `switchyard tunnel ssh-cert`"

// Issue returns a certificate for a user's key, signed by the authority.
func Issue(authority ssh.Signer, random io.Reader, key ssh.PublicKey, user identity.User, now time.Time) (*ssh.Certificate, error) {
	if _, is := key.(*ssh.Certificate); is {
		return nil, errors.New("the key is a certificate already: give the public key itself")
	}
	if user.Name == "" {
		return nil, errors.New("the user has no name")
	}
	text, err := user.Encode()
	if err != nil {
		return nil, fmt.Errorf("issue a certificate for %.253q: %w", user.Name, err)
	}
	var serial [8]byte
	if _, err := io.ReadFull(random, serial[:]); err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	c := &ssh.Certificate{
		Key: key, Serial: binary.BigEndian.Uint64(serial[:]), CertType: ssh.UserCert, KeyId: user.Name, ValidPrincipals: []string{user.Name},
		ValidAfter: uint64(now.Add(-leeway).Unix()), ValidBefore: uint64(now.Add(Lifetime).Unix()),
		// OpenSSH sends no request to forward a port without a certificate that permits it.
		Permissions: ssh.Permissions{Extensions: map[string]string{"permit-port-forwarding": "", Extension: text}},
	}
	if err := c.SignCert(random, authority); err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return c, nil
}

// Check returns the user of a key, if the authority has certified it and the certificate is valid
// now.
func Check(authority, key ssh.PublicKey, now time.Time) (identity.User, error) {
	c, is := key.(*ssh.Certificate)
	if !is {
		return identity.User{}, errors.New("the key has no certificate: " + again)
	}
	if c.CertType != ssh.UserCert || len(c.ValidPrincipals) != 1 {
		return identity.User{}, errors.New("the certificate is not that of one user: " + again)
	}
	checker := ssh.CertChecker{
		Clock:           func() time.Time { return now },
		IsUserAuthority: func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), authority.Marshal()) },
	}
	// CheckCert verifies the signature, but not that it is the authority's.
	if c.SignatureKey == nil || !checker.IsUserAuthority(c.SignatureKey) {
		return identity.User{}, errors.New("the certificate was signed by an unknown authority: " + again)
	}
	if err := checker.CheckCert(c.ValidPrincipals[0], c); err != nil {
		return identity.User{}, fmt.Errorf("the certificate is not valid: %w: %s", err, again)
	}
	user, err := identity.Decode(c.Extensions[Extension])
	if err != nil || user.Name != c.ValidPrincipals[0] {
		return identity.User{}, errors.New("the certificate does not name its user: " + again)
	}
	return user, nil
}
