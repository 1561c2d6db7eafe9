package agent_test

import (
	"crypto/ed25519"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
)

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
}

// credential returns one of a user for a cluster.
func (s *site) credential(c registry.Cluster, user *linkv1.Caller) string {
	s.Helper()
	credential, expires, err := s.issuer.Issue(c, user, time.Now())
	s.Must(err)
	if left := time.Until(expires); left > signed.Lifetime || left < signed.Lifetime-time.Minute {
		s.Errorf("it is valid for %s", left)
	}
	return credential
}

// checks checks a credential as a tunnel proxy that has just started.
func (s *site) checks(credential string) (string, error) {
	user, err := controlkeys.New(s.Kube.CoreV1().ConfigMaps(s.operator), nil).Check(s.Context(), credential)
	return user.Name, err
}

// TestTheClusterHasTheKeysOfTheControlPlane has keys that change, with an agent that may write no other
// ConfigMap.
func TestTheClusterHasTheKeysOfTheControlPlane(t *testing.T) {
	s := newSite(t)
	first := s.credential(prod, jo)
	s.Eventually("a credential counts", func() error {
		user, err := s.checks(first)
		if err == nil && user != "switchyard:controlplane:acme:jo" {
			t.Errorf("it is that of %s", user)
		}
		return err
	})
	if _, err := s.checks(s.credential(registry.Cluster{Organisation: "acme", Name: "test"}, jo)); err == nil || !strings.Contains(err.Error(), `this is cluster "acme/prod"`) {
		t.Errorf("one for another cluster: %v", err)
	}
	if _, _, err := s.issuer.Issue(prod, &linkv1.Caller{Name: "jo:admin"}, time.Now()); err == nil {
		t.Error("a name that is two gets a credential")
	}
	if _, _, err := s.issuer.Issue(prod, &linkv1.Caller{}, time.Now()); err == nil {
		t.Error("the control plane itself gets a credential")
	}
	s.Must(s.issuer.Set(keyOf(1), keyOf(2).Public().(ed25519.PublicKey)))
	s.Must(s.issuer.Set(keyOf(2), keyOf(1).Public().(ed25519.PublicKey)))
	second := s.credential(prod, jo)
	s.Eventually("both keys count", func() error {
		_, one := s.checks(first)
		_, two := s.checks(second)
		return errors.Join(one, two)
	})
	s.Must(s.issuer.Set(keyOf(2)))
	s.Eventually("the removed key does not count", func() error {
		if _, err := s.checks(first); err == nil || !strings.Contains(err.Error(), "no key of the control plane") {
			return errors.Join(errors.New("it is not refused"), err)
		}
		return nil
	})
	if _, err := s.checks(second); err != nil {
		t.Error(err)
	}
	config, err := s.Kube.CoreV1().ConfigMaps(s.operator).Get(t.Context(), controlkeys.ConfigMap, metav1.GetOptions{})
	s.Must(err)
	if text := config.Data["keys.json"]; strings.Contains(text, `"d"`) || !strings.Contains(text, "Ed25519") {
		t.Errorf("the ConfigMap has %v", config.Data)
	}
	if s.issuer.Set(nil) == nil {
		t.Error("no key is accepted")
	}
}

// TestAGrantHasTheOperatorsAuthority also shows which ConfigMaps are reached through the link.
func TestAGrantHasTheOperatorsAuthority(t *testing.T) {
	s := newSite(t)
	s.connected()
	kube := s.server.Transport(prod, &linkv1.Caller{})
	defer kube.CloseIdleConnections()
	if _, err := s.issuer.Grant(t.Context(), kube, s.operator, prod, jo); err == nil || !strings.Contains(err.Error(), `in cluster "prod" cannot be read: ConfigMap signadot-authority: 404`) {
		t.Errorf("without an authority: %v", err)
	}
	authority := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: "signadot-authority"}}
	s.Create(authority)
	if _, err := s.issuer.Grant(t.Context(), kube, s.operator, prod, jo); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("with an authority that is not there yet: %v", err)
	}
	authority.Data = map[string]string{trust.BundleFile: "the certificates"}
	s.Must(s.Client.Update(t.Context(), authority))
	grant, err := s.issuer.Grant(t.Context(), kube, s.operator, prod, jo)
	if err != nil || grant.Authority != "the certificates" {
		t.Fatalf("%+v, %v", grant, err)
	}
	s.Eventually("its credential counts", func() error { _, err := s.checks(grant.Credential); return err })
	if _, err := s.issuer.Grant(t.Context(), kube, s.operator, prod, &linkv1.Caller{Name: "a b"}); err == nil {
		t.Error("a name that is not valid gets a grant")
	}
	const maps = "/api/v1/namespaces/"
	for _, path := range []string{maps + s.operator + "/configmaps/" + controlkeys.ConfigMap, maps + s.operator + "/configmaps/cluster-config", maps + s.operator + "/configmaps", maps + s.namespace + "/configmaps/signadot-authority"} {
		if code, _ := s.call(t, &linkv1.Caller{}, "GET", path, ""); code != http.StatusForbidden {
			t.Errorf("GET %s: %d", path, code)
		}
	}
	for _, name := range []string{"signadot-authority", controlkeys.ConfigMap} {
		if code, _ := s.call(t, &linkv1.Caller{}, "PUT", maps+s.operator+"/configmaps/"+name, "{}"); code != http.StatusForbidden {
			t.Errorf("PUT %s: %d", name, code)
		}
	}
}
