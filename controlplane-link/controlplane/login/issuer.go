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

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"switchyard.dev/controlplane-link/identity"
)

// clientOf returns the client for requests to the issuer.
func clientOf(s *Settings) (*http.Client, error) {
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
	return &http.Client{Transport: transport, Timeout: within / 2, CheckRedirect: stay}, nil
}

// reached returns the configuration of the issuer, which is read at the first login, and that of the client.
func (h *Handler) reached(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	known, secret, err := h.issuer.Load(), []byte(nil), error(nil)
	if known == nil {
		if known, err = oidc.NewProvider(ctx, h.Settings.Issuer); err != nil {
			return nil, nil, fmt.Errorf("read the configuration of the issuer: %w", err)
		}
		h.issuer.Store(known)
	}
	if h.Settings.ClientSecretFile != "" {
		secret, err = os.ReadFile(h.Settings.ClientSecretFile)
	}
	return known, &oauth2.Config{
		ClientID: h.Settings.ClientID, ClientSecret: strings.TrimSpace(string(secret)), Endpoint: known.Endpoint(), RedirectURL: h.URL + callbackPath, Scopes: h.Settings.Scopes,
	}, err
}

// finish exchanges the code of a login for the claims of the person, and verifies them.
func (h *Handler) finish(ctx context.Context, code string, p pending) (claims, error) {
	known, c, err := h.reached(ctx)
	if err != nil {
		return nil, err
	}
	token, err := c.Exchange(ctx, code, oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return nil, fmt.Errorf("exchange the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := known.Verifier(&oidc.Config{ClientID: c.ClientID, Now: h.Now}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("verify the ID token: %w", err)
	}
	var sent map[string]any
	switch err := id.Claims(&sent); {
	case err != nil:
		return nil, err
	case id.Nonce != p.Nonce || id.Subject == "" || len(id.Subject) > maxClaim:
		return nil, errors.New("the ID token is of another login, or names no person")
	case sent["azp"] != nil && sent["azp"] != c.ClientID:
		return nil, errors.New("the ID token was issued to another client")
	}
	if known.UserInfoEndpoint() != "" {
		info, err := known.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err == nil && info.Subject != id.Subject {
			err = errors.New("they are of another person")
		}
		if err == nil && info.Email != "" {
			delete(sent, "email_verified") // that of the ID token may be about another address
		}
		if err == nil {
			err = info.Claims(&sent)
		}
		if err != nil {
			return nil, fmt.Errorf("read the claims of the person: %w", err)
		}
	}
	return texts(sent, h.Settings.TrustEmail), nil
}

// claims are the texts that the issuer reports about a person.
type claims map[string][]string

// texts returns the claims that are texts or lists of texts, and the address only if it is verified or trusted, and
// can be the name of a user.
func texts(sent map[string]any, trusted bool) claims {
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
	verified := trusted || sent["email_verified"] == true || sent["email_verified"] == "true"
	if email := out.one("email"); !verified || !strings.Contains(email, "@") || identity.Valid("user", email) != nil {
		delete(out, "email")
	}
	return out
}

// maxClaim is the length of a subject at most, by OpenID Connect, and of other claims that are kept.
const maxClaim = 255

// one returns a claim that has one short text; "": it is none.
func (c claims) one(name string) string {
	if len(c[name]) != 1 || len(c[name][0]) > maxClaim {
		return ""
	}
	return c[name][0]
}
