package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"switchyard.dev/controlplane-link/identity"
)

// askWithin bounds a request to the issuer.
const askWithin = 10 * time.Second

// issuer is a client of the issuer.
type issuer struct {
	*Settings
	client   *http.Client
	callback string
	now      func() time.Time
	// known is the configuration that the issuer publishes; nil until it was reached.
	known atomic.Pointer[oidc.Provider]
}

func newIssuer(s *Settings, callback string, now func() time.Time) (*issuer, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if s.CAFile != "" {
		text, err := os.ReadFile(s.CAFile)
		roots := x509.NewCertPool()
		if err != nil || !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("caFile %s has no certificate in PEM (%w)", s.CAFile, err)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	// Codes and the secret are for the addresses in the issuer's configuration only.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &issuer{Settings: s, callback: callback, now: now, client: &http.Client{Transport: transport, Timeout: askWithin, CheckRedirect: stay}}, nil
}

// reached returns the configuration of the issuer, which is read at the first login, and that of the client.
func (i *issuer) reached(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	known, secret, err := i.known.Load(), []byte(nil), error(nil)
	if known == nil {
		if known, err = oidc.NewProvider(ctx, i.Issuer); err != nil {
			return nil, nil, fmt.Errorf("read the configuration of the issuer: %w", err)
		}
		i.known.Store(known)
	}
	if i.ClientSecretFile != "" {
		secret, err = os.ReadFile(i.ClientSecretFile)
	}
	return known, &oauth2.Config{
		ClientID: i.ClientID, ClientSecret: strings.TrimSpace(string(secret)), Endpoint: known.Endpoint(), RedirectURL: i.callback, Scopes: i.Scopes,
	}, err
}

// begin returns the URL at which a person logs in.
func (i *issuer) begin(ctx context.Context, p pending) (string, error) {
	_, c, err := i.reached(oidc.ClientContext(ctx, i.client))
	if err != nil {
		return "", err
	}
	return c.AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), nil
}

// finish exchanges the code of a login for the claims of the person, and verifies them.
func (i *issuer) finish(ctx context.Context, code string, p pending) (claims, error) {
	ctx = oidc.ClientContext(ctx, i.client)
	known, c, err := i.reached(ctx)
	if err != nil {
		return nil, err
	}
	token, err := c.Exchange(ctx, code, oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return nil, fmt.Errorf("exchange the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := known.Verifier(&oidc.Config{ClientID: i.ClientID, Now: i.now}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("verify the ID token: %w", err)
	}
	var sent map[string]any
	switch err := id.Claims(&sent); {
	case err != nil:
		return nil, err
	case id.Nonce != p.Nonce || id.Subject == "":
		return nil, errors.New("the ID token is of another login")
	case sent["azp"] != nil && sent["azp"] != i.ClientID:
		return nil, errors.New("the ID token was issued to another client")
	}
	if known.UserInfoEndpoint() != "" {
		info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err == nil && info.Subject != id.Subject {
			err = errors.New("they are of another person")
		}
		if err == nil {
			err = info.Claims(&sent)
		}
		if err != nil {
			return nil, fmt.Errorf("read the claims of the person: %w", err)
		}
	}
	return i.texts(sent), nil
}

// claims are the texts that the issuer reports about a person.
type claims map[string][]string

// texts returns the claims that are texts or lists of texts, and the address only if it is verified and can be
// the name of a user.
func (i *issuer) texts(sent map[string]any) claims {
	out := claims{}
	for name, value := range sent {
		all, is := value.([]any)
		if !is {
			all = []any{value}
		}
		for _, one := range all {
			if text, is := one.(string); is {
				out[name] = append(out[name], text)
			}
		}
	}
	verified := i.TrustEmail || sent["email_verified"] == true || sent["email_verified"] == "true"
	if email := out.one("email"); !verified || !strings.Contains(email, "@") || identity.Valid("user", email) != nil {
		delete(out, "email")
	}
	return out
}

// one returns a claim that has one short text; "": it is none.
func (c claims) one(name string) string {
	if len(c[name]) != 1 || len(c[name][0]) > 255 {
		return ""
	}
	return c[name][0]
}
