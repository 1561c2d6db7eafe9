package access_test

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/identity"
)

func TestUsersOfAControlPlane(t *testing.T) {
	s := newSite(t)
	private := ed25519.NewKeyFromSeed(slices.Repeat([]byte{1}, ed25519.SeedSize))
	keys, err := signed.KeysOf(private.Public().(ed25519.PublicKey))
	s.Must(err)
	prod := signed.Cluster{Organisation: s.namespace, Name: "prod"} // its groups are of this test
	s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: controlkeys.ConfigMap}, Data: controlkeys.Data(prod, keys)})
	group := crdv1.ControlPlanePrefix + s.namespace
	issue := func(c signed.Cluster, at time.Time) string {
		credential, _, err := signed.Issue(private, c, identity.User{Name: crdv1.ControlPlanePrefix + c.Organisation + ":jo", Groups: []string{crdv1.ControlPlanePrefix + c.Organisation}}, at)
		s.Must(err)
		return credential
	}
	user, refused := s.Identify(t.Context(), issue(prod, time.Now()), "10.1.2.3:4")
	if refused != nil || user.Name != group+":jo" || !slices.Equal(user.Groups, []string{group}) {
		t.Fatalf("%+v, %v", user, refused)
	}
	good := issue(prod, time.Now())
	for what, c := range map[string]struct{ credential, want string }{
		"expired":                 {issue(prod, time.Now().Add(-signed.Lifetime)), "expired"},
		"of another cluster":      {issue(signed.Cluster{Organisation: s.namespace, Name: "test"}, time.Now()), "is for cluster"},
		"of another organisation": {issue(signed.Cluster{Organisation: "evil", Name: "prod"}, time.Now()), "is for cluster"},
		"forged":                  {good[:len(good)-6] + "AAAAAA", "signature"},
		"without a header":        {"e30." + strings.Split(good, ".")[1] + ".x", "signed with Ed25519"},
	} {
		if user, refused := s.Identify(t.Context(), c.credential, "10.1.2.3:4"); refused.GetReason() != tunnelv1.Reason_REASON_UNAUTHENTICATED || !strings.Contains(refused.GetMessage(), c.want) || user.Name != "" {
			t.Errorf("a credential %s: %+v, %v", what, user, refused)
		}
		if strings.Contains(s.logs.String(), c.credential) {
			t.Error("a credential is in the log")
		}
	}
	if n := s.asked.tokens.Load(); n != 0 {
		t.Errorf("%d credentials were sent to the API server", n)
	}
	if refused := s.MayUse(t.Context(), user); refused.GetReason() != tunnelv1.Reason_REASON_FORBIDDEN {
		t.Errorf("without a right: %v", refused)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "linked-"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"list"}}}}
	s.Create(role)
	s.Create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "linked-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}}})
	s.Eventually("the right of the group", func() error {
		s.past += time.Minute // the denial is not cached any more
		return because(s.MayUse(t.Context(), user))
	})
}

// because returns a refusal as an error.
func because(refused *tunnelv1.Refused) error {
	if refused == nil {
		return nil
	}
	return errors.New(refused.GetMessage())
}

// TestTheAPIServersUsersHaveNoNamesOfAControlPlane has an API server with an authenticator that has such
// users.
func TestTheAPIServersUsersHaveNoNamesOfAControlPlane(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte("t-user,switchyard:controlplane:acme:jo,1\nt-group,ada,2,\"dev,switchyard:controlplane:acme\"\nt-other,bob,3,\"dev\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &site{World: world.New(t, "token-auth-file="+file), logs: &background.Output{}}
	s.namespace = s.NewNamespace("reserved")
	s.open(s.Config)
	for token, want := range map[string]string{"t-user": "reserved for users of a control plane", "t-group": "reserved for users of a control plane", "t-other": ""} {
		user, refused := s.Identify(t.Context(), token, "10.1.2.3:4")
		if (refused != nil) != (want != "") || !strings.Contains(refused.GetMessage(), want) || refused != nil && user.Name != "" {
			t.Errorf("%s: %+v, %v", token, user, refused)
		}
	}
}
