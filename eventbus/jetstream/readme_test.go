package jetstream_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/conf"
)

// readmeAccounts returns the accounts and users that the guide to the routing log documents,
// literally: in the language of NATS' configuration.
func readmeAccounts(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```\naccounts {\n")
	block, _, ended := strings.Cut(rest, "```\n")
	if !found || !ended {
		t.Fatal("eventbus/README.md has no block that begins with accounts {")
	}
	return "accounts {\n" + block
}

// account is one of the README's.
type account struct {
	JetStream string `json:"jetstream"`
	Users     []user `json:"users"`
	Exports   []struct {
		Service  string           `json:"service"`
		Response jwt.ResponseType `json:"response_type"`
	} `json:"exports"`
	Imports []struct {
		Service struct {
			Account string `json:"account"`
			Subject string `json:"subject"`
		} `json:"service"`
		To string `json:"to"`
	} `json:"imports"`
}

// user is a user of such an account.
type user struct {
	User        string `json:"user"`
	Permissions struct {
		Publish   allowed `json:"publish"`
		Subscribe allowed `json:"subscribe"`
	} `json:"permissions"`
}

type allowed struct {
	Allow []string `json:"allow"`
}

// parsedAccounts returns the README's accounts by their names.
func parsedAccounts(t *testing.T) map[string]account {
	t.Helper()
	parsed, err := conf.Parse(readmeAccounts(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(parsed["accounts"])
	if err != nil {
		t.Fatal(err)
	}
	var accounts map[string]account
	if err := json.Unmarshal(text, &accounts); err != nil {
		t.Fatal(err)
	}
	return accounts
}

// name is the user's, without saying that it is of a certificate.
func (u user) name() string { return strings.TrimPrefix(u.User, "CN=") }

func (u user) permissions() jwt.Permissions {
	return jwt.Permissions{
		Pub: jwt.Permission{Allow: u.Permissions.Publish.Allow},
		Sub: jwt.Permission{Allow: u.Permissions.Subscribe.Allow},
	}
}

// claims returns the account as a JWT: its exports are only for accounts that have a token from
// it.
func (a account) claims(t *testing.T, name string, keys map[string]key) *jwt.AccountClaims {
	t.Helper()
	claims := jwt.NewAccountClaims(keys[name].public)
	if a.JetStream != "" {
		claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	}
	for _, e := range a.Exports {
		response := jwt.ResponseType(jwt.ResponseTypeSingleton)
		if e.Response != "" {
			response = jwt.ResponseTypeStream
		}
		claims.Exports.Add(&jwt.Export{
			Name: e.Service, Subject: jwt.Subject(e.Service), Type: jwt.Service, TokenReq: true, ResponseType: response,
		})
	}
	for _, i := range a.Imports {
		token := jwt.NewActivationClaims(keys[name].public)
		token.ImportSubject, token.ImportType = jwt.Subject(i.Service.Subject), jwt.Service
		claims.Imports.Add(&jwt.Import{
			Name: i.To, Account: keys[i.Service.Account].public, Subject: jwt.Subject(i.Service.Subject), Type: jwt.Service,
			LocalSubject: jwt.RenamingSubject(strings.Replace(i.To, "*", "$1", 1)), Token: encode(t, token, keys[i.Service.Account]),
		})
	}
	return claims
}
