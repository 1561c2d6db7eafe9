package linkserver_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/tunnels/credential/signed"
)

const grant = "POST " + signed.GrantPath + " HTTP/1.1\nHost: link.example.com:8443\nContent-Length: 0\n"

func TestAnAPIKeyGetsACredential(t *testing.T) {
	s := newSite(t)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	trusttest.File(t, s.dir, "signing.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	r := s.start(func(c *linkserver.Config) { c.SigningKey = filepath.Join(s.dir, "signing.key") })
	s.agent(r.at["agents"])
	answer, _, _ := s.send(r.at["users"], grant+with(joKey)+"\n")
	var got signed.Grant
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", answer.Status, err)
	}
	keys, err := signed.KeysOf(public)
	if err != nil {
		t.Fatal(err)
	}
	user, err := keys.Check(signed.Cluster{Organisation: "acme", Name: "prod"}, got.Credential, time.Now())
	if err != nil || user.Name != "switchyard:controlplane:acme:jo" || !slices.Equal(user.Groups, []string{"switchyard:controlplane:acme", "switchyard:controlplane:acme:dev"}) {
		t.Errorf("the credential is of %+v: %v", user, err)
	}
	if got.Authority != "of GET /api/v1/namespaces/signadot/configmaps/signadot-authority" {
		t.Errorf("the authority is %q", got.Authority)
	}
	if log := s.log.String(); !strings.Contains(log, "a credential was issued") || strings.Contains(log, got.Credential) {
		t.Errorf("the log has no record, or the credential:\n%s", log)
	}
	for _, c := range []struct {
		headers string
		status  int
	}{
		{"", http.StatusUnauthorized},
		{strings.Replace(with(joKey), "prod", "other", 1), http.StatusForbidden},
		{strings.Replace(with(alKey), "prod", "other", 1), http.StatusServiceUnavailable}, // there is no agent
	} {
		if answer, _, _ := s.send(r.at["users"], grant+c.headers+"\n"); answer.StatusCode != c.status {
			text, _ := io.ReadAll(answer.Body)
			t.Errorf("with %q: %s, %s", c.headers, answer.Status, text)
		}
	}
}

func TestWithoutASigningKeyNoCredentialIsIssued(t *testing.T) {
	s := newSite(t)
	r := s.start(nil)
	s.agent(r.at["agents"])
	if answer, _, _ := s.send(r.at["users"], grant+with(joKey)+"\n"); answer.StatusCode != http.StatusNotImplemented {
		t.Errorf("answered %s", answer.Status)
	}
}
