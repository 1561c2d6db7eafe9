package proxy_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/identity"
)

// controlPlane is a control plane. The cluster of the site has its keys.
type controlPlane struct {
	*site
	cluster signed.Cluster
	key     ed25519.PrivateKey
}

func (s *site) controlPlane() *controlPlane {
	s.Helper()
	p := &controlPlane{site: s, cluster: signed.Cluster{Organisation: s.namespace, Name: "prod"}}
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.operator, Name: controlkeys.ConfigMap}})
	p.rotate(1)
	return p
}

// rotate replaces the key, and ends that of before.
func (p *controlPlane) rotate(seed byte) {
	p.Helper()
	p.key = ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
	keys, err := signed.KeysOf(p.key.Public().(ed25519.PublicKey))
	p.Must(err)
	_, err = p.Kube.CoreV1().ConfigMaps(p.operator).Update(p.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: controlkeys.ConfigMap}, Data: controlkeys.Data(p.cluster, keys)}, metav1.UpdateOptions{})
	p.Must(err)
}

func (p *controlPlane) group() string { return crdv1.ControlPlanePrefix + p.namespace }

// issue returns a credential that is valid for a while.
func (p *controlPlane) issue(name string, left time.Duration) string {
	p.Helper()
	user := identity.User{Name: p.group() + ":" + name, Groups: []string{p.group(), p.group() + ":" + name + "s"}}
	credential, _, err := signed.Issue(p.key, p.cluster, user, time.Now().Add(left-signed.Lifetime))
	p.Must(err)
	return credential
}

// allow binds the right to use the proxies to a group.
func (p *controlPlane) allow(group string) {
	p.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "linked-"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"list"}}}}
	p.Create(role)
	p.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "linked-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}}})
	p.Eventually("the right of the group", func() error {
		if refused := p.config.Access.MayUse(p.Context(), identity.User{Name: "any", Groups: []string{group}}); refused != nil {
			return errors.New(refused.GetMessage())
		}
		return nil
	})
}

// uses connects with a credential, and returns the session.
func (p *controlPlane) uses(credential string) *workstation {
	p.Helper()
	w, err := p.hello(credential, "session-"+credential[len(credential)-8:], 1)
	p.Must(err)
	return w
}

// ended waits until a session is ended because its token does not count, and returns the message.
func (w *workstation) ended() string {
	w.Helper()
	var left *carrier.LeftError
	w.Eventually("the end of the session", func() error {
		if !errors.As(w.Err(), &left) {
			return fmt.Errorf("it is %w", errors.Join(errors.New("not ended"), w.Err()))
		}
		return nil
	})
	if why := left.Leave.GetWhy(); why.GetReason() != tunnelv1.Reason_REASON_UNAUTHENTICATED || !left.Leave.GetComeBack() {
		w.Errorf("it ended with %v", left.Leave)
	}
	return left.Leave.GetWhy().GetMessage()
}

// TestASessionOfAControlPlanesUser has the user's rights by groups, and ends with the key.
func TestASessionOfAControlPlanesUser(t *testing.T) {
	s := newSite(t, quickly)
	p := s.controlPlane()
	p.allow(p.group() + ":jos")
	back := s.listen(s.backend.String())
	jo := p.uses(p.issue("jo", signed.Lifetime))
	conn, refused := jo.to(s.backend.String(), back.port)
	if refused != nil {
		t.Fatal(refused)
	}
	if got := talk(t, conn); !strings.HasPrefix(got, "in the cluster") {
		t.Errorf("it answered %q", got)
	}
	s.Eventually("the record names the user", s.records.have(`"user":"`+p.group()+`:jo"`))
	bob := p.uses(p.issue("bob", signed.Lifetime))
	if _, refused := bob.to(s.backend.String(), back.port); refused.GetReason() != tunnelv1.Reason_REASON_FORBIDDEN {
		t.Errorf("a user without rights: %v", refused)
	}
	former := p.issue("jo", signed.Lifetime)
	p.rotate(2)
	for _, w := range []*workstation{jo, bob} {
		if why := w.ended(); !strings.Contains(why, "No key of the control plane") {
			t.Errorf("it ended because: %s", why)
		}
	}
	var none *carrier.RefusedError
	if _, err := s.hello(former, "again", 1); !errors.As(err, &none) || none.Refused.GetReason() != tunnelv1.Reason_REASON_UNAUTHENTICATED {
		t.Errorf("a credential of the removed key: %v", err)
	}
	p.uses(p.issue("jo", signed.Lifetime))
}

// TestANewerTokenKeepsASession has sessions that outlive the credential that they began with, or not.
func TestANewerTokenKeepsASession(t *testing.T) {
	s := newSite(t, quickly)
	p := s.controlPlane()
	p.allow(p.group())
	const short = 4 * time.Second
	began := map[string]*workstation{}
	for name, newer := range map[string]string{
		"none": "", "its user's": p.issue("jo", signed.Lifetime), "another user's": p.issue("bob", signed.Lifetime), "forged": p.issue("jo", signed.Lifetime) + "x", "expired": p.issue("jo", -time.Minute),
	} {
		w, err := s.hello(p.issue("jo", short), "session "+name, 1)
		s.Must(err)
		if began[name] = w; newer != "" {
			s.Must(w.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Renew{Renew: &tunnelv1.Renew{Token: newer}}}))
		}
	}
	for name, w := range began {
		if name == "its user's" {
			continue
		}
		if why := w.ended(); !strings.Contains(why, "expired") {
			t.Errorf("with %s it ended because: %s", name, why)
		}
	}
	back := s.listen(s.backend.String())
	if _, refused := began["its user's"].to(s.backend.String(), back.port); refused != nil || began["its user's"].Err() != nil {
		t.Errorf("with a newer credential of its user it is refused: %v, %v", refused, began["its user's"].Err())
	}
	if text := s.logs.String(); strings.Contains(text, "eyJ") {
		t.Error("a credential is in the log")
	}
}
