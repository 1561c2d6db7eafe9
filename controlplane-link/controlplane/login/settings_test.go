package login_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/login"
)

func read(t *testing.T, text string) (*login.Settings, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "login.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return login.Read(path)
}

const valid = "issuer: https://issuer.example.com\nclientID: switchyard\n"

func TestSettings(t *testing.T) {
	s, err := read(t, valid+"mappings: [{value: ops, organisation: acme, role: admin}]")
	if err != nil || !slices.Equal(s.Scopes, []string{"openid", "email", "profile", "groups"}) || s.Mappings[0].Claim != "groups" || s.TrustEmail {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"clientID: x":                                                         `issuer ""`,
		"issuer: http://issuer.example.com":                                   "https://issuer.example.com",
		"issuer: https://u:p@x.example.com":                                   "is not a URL",
		"issuer: https://issuer.example.com":                                  "clientID is missing",
		valid + "scopes: [email]":                                             "lack openid",
		valid + "client: x":                                                   `unknown field "client"`,
		valid + "clientID: y":                                                 "already set",
		valid + "mappings: [{value: ops, organisation: acme}]":                "mappings[0] needs",
		valid + "mappings: [{value: ops, organisation: acme, role: owner}]":   "role admin or member",
		valid + "mappings: [{organisation: acme, role: admin}]":               "needs value",
		valid + "mappings: [{value: ops, organisation: 'a:b', role: admin}]":  "the name of an organisation",
		valid + "mappings: [{value: ops, org: acme, role: admin}]":            "unknown field",
		valid + "mappings: [{value: [ops], organisation: acme, role: admin}]": "cannot unmarshal",
	} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "login.yaml") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := login.Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that does not exist was read")
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	for _, url := range []string{"", "control.example.com", "http://control.example.com", "https://control.example.com/", "https://control.example.com/x", "https://Control.example.com", "https://control.example.com:443", "https://u@control.example.com"} {
		c := w.config
		c.URL = url
		if _, err := login.New(c); err == nil || !strings.Contains(err.Error(), "without a path") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "none"), w.config.Settings.ClientSecretFile} {
		c, s := w.config, *w.config.Settings
		s.CAFile, c.Settings = file, &s
		if _, err := login.New(c); err == nil || !strings.Contains(err.Error(), "caFile") {
			t.Errorf("%v", err)
		}
	}
	s := *w.config.Settings
	s.ClientSecretFile = filepath.Join(t.TempDir(), "none")
	w.config.Settings = &s
	w.replica()
	w.browser().page("start").want(502, "Try again")
}
