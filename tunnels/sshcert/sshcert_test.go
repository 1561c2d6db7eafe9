package sshcert_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/sshcert"
)

func signer(t *testing.T) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestACertificateCountsForSomeMinutes(t *testing.T) {
	authority, key, now := signer(t), signer(t), time.Unix(1_800_000_000, 0)
	ada := identity.User{Name: "ada", UID: "7", Groups: []string{"shop", "system:authenticated"}, Extra: map[string][]string{"scopes": {"all"}}}
	issue := func() *ssh.Certificate {
		c, err := sshcert.Issue(authority, rand.Reader, key.PublicKey(), ada, now)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if got, err := sshcert.Check(authority.PublicKey(), issue(), now); err != nil || !reflect.DeepEqual(got, ada) {
		t.Fatalf("%+v, %v", got, err)
	}
	// A certificate that is signed again has a valid signature.
	resigned := func(by ssh.Signer, change func(*ssh.Certificate)) *ssh.Certificate {
		c := issue()
		change(c)
		if err := c.SignCert(rand.Reader, by); err != nil {
			t.Fatal(err)
		}
		return c
	}
	forged := issue()
	forged.ValidBefore += 3600
	for name, c := range map[string]struct {
		key  ssh.PublicKey
		at   time.Time
		want string
	}{
		"a bare key":             {key.PublicKey(), now, "no certificate"},
		"expired":                {issue(), now.Add(sshcert.Lifetime), "expired"},
		"not yet":                {issue(), now.Add(-2 * time.Minute), "not yet"},
		"with a longer life":     {forged, now, "is not valid"},
		"of another authority":   {resigned(signer(t), func(*ssh.Certificate) {}), now, "unknown authority"},
		"signed by itself":       {resigned(key, func(*ssh.Certificate) {}), now, "unknown authority"},
		"of a host":              {resigned(authority, func(c *ssh.Certificate) { c.CertType = ssh.HostCert }), now, "not that of one user"},
		"for all users":          {resigned(authority, func(c *ssh.Certificate) { c.ValidPrincipals = nil }), now, "not that of one user"},
		"for two":                {resigned(authority, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"ada", "bob"} }), now, "not that of one user"},
		"of two minds":           {resigned(authority, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"bob"} }), now, "does not name its user"},
		"without the extension":  {resigned(authority, func(c *ssh.Certificate) { delete(c.Extensions, sshcert.Extension) }), now, "does not name its user"},
		"with a critical option": {resigned(authority, func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"force-command": "x"} }), now, "is not valid"},
	} {
		if got, err := sshcert.Check(authority.PublicKey(), c.key, c.at); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "ssh-cert") || got.Name != "" {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, c.want)
		}
	}
	if _, err := sshcert.Issue(authority, rand.Reader, issue(), ada, now); err == nil {
		t.Error("a certificate is certified")
	}
	if _, err := sshcert.Issue(authority, rand.Reader, key.PublicKey(), identity.User{}, now); err == nil {
		t.Error("a user without a name is certified")
	}
}
