package access_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers/tokens"
	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/identity"
)

func TestMain(m *testing.M) { world.Main(m) }

// counting counts the questions to the real API.
type counting struct {
	authentication.TokenReviewInterface
	authorization.SubjectAccessReviewInterface
	tokens, rights atomic.Int32
}

type tokenReviews struct{ *counting }

func (c tokenReviews) Create(ctx context.Context, r *authenticationv1.TokenReview, o metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	c.tokens.Add(1)
	return c.TokenReviewInterface.Create(ctx, r, o)
}

type rightReviews struct{ *counting }

func (c rightReviews) Create(ctx context.Context, r *authorizationv1.SubjectAccessReview, o metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	c.rights.Add(1)
	return c.SubjectAccessReviewInterface.Create(ctx, r, o)
}

// site is an Access with the rights that the chart gives a tunnel proxy.
type site struct {
	*world.World
	*access.Access
	asked     *counting
	logs      *background.Output
	namespace string
	past      time.Duration
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{World: world.Shared(t), logs: &background.Output{}}
	s.namespace = s.NewNamespace("access")
	user := "tunnel-proxy-" + s.namespace
	s.Grant(user, "",
		rbacv1.PolicyRule{NonResourceURLs: []string{"/.well-known/openid-configuration", "/openid/v1/jwks"}, Verbs: []string{"get"}}, // every service account has it
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}})
	s.open(s.As(user))
	return s
}

func (s *site) open(as *rest.Config) {
	s.Helper()
	kube := kubernetes.NewForConfigOrDie(as)
	s.asked = &counting{TokenReviewInterface: kube.AuthenticationV1().TokenReviews(), SubjectAccessReviewInterface: kube.AuthorizationV1().SubjectAccessReviews()}
	var err error
	s.Access, err = access.New(access.Config{Tokens: tokenReviews{s.asked}, Rights: rightReviews{s.asked}, Issuer: tokens.NewIssuer(kube.Discovery().RESTClient(), nil),
		Credentials: controlkeys.New(s.Kube.CoreV1().ConfigMaps(s.namespace), nil), Clock: func() time.Time { return time.Now().Add(s.past) }, Logger: slog.New(slog.NewTextHandler(s.logs, nil))})
	s.Must(err)
}

func TestIdentify(t *testing.T) {
	s := newSite(t)
	s.Accounts(s.namespace, "ada", "gone")
	ours, default_ := s.Token(s.namespace, "ada", access.Audience, nil), s.Token(s.namespace, "ada", "", nil)
	gone := s.Token(s.namespace, "gone", "", nil)
	s.Remove(apiserver.Account(s.namespace, "gone"))
	forged := ours[:len(ours)-8] + "AAAAAAAA"
	expired := strings.Join([]string{"e30", base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"aud":["tunnel-proxy"],"exp":%d}`, time.Now().Unix()-1))), "c2ln"}, ".")
	name := "system:serviceaccount:" + s.namespace + ":ada"
	for what, c := range map[string]struct{ token, want string }{
		"made for us":                        {ours, name},
		"with which the API server is asked": {default_, name},
		"made for another service":           {s.Token(s.namespace, "ada", "vault", nil), "does not accept"},
		"forged":                             {forged, "no key of the cluster has signed it"},
		"of a deleted account":               {gone, "does not accept"},
		"expired":                            {expired, "expired at 20"},
		"of junk":                            {"junk", "does not accept"},
		"too long":                           {strings.Repeat("x", 17<<10), "longer than"},
		"of nothing":                         {"", "no token"},
	} {
		user, refused := s.Identify(t.Context(), c.token, "10.1.2.3:4")
		if refused != nil {
			if refused.Reason != tunnelv1.Reason_REASON_UNAUTHENTICATED || !strings.Contains(refused.Message, c.want) || user.Name != "" {
				t.Errorf("a token %s: %+v, %v", what, user, refused)
			}
		} else if user.Name != c.want || user.UID == "" || len(user.Groups) == 0 {
			t.Errorf("a token %s: %+v", what, user)
		}
		if c.token != "" && strings.Contains(s.logs.String(), c.token) {
			t.Errorf("a token %s stands in the log", what)
		}
	}

	asked := s.asked.tokens.Load()
	if _, refused := s.Identify(t.Context(), ours, "10.1.2.3:4"); refused != nil || s.asked.tokens.Load() != asked {
		t.Errorf("a cached answer is requested again: %v", refused)
	}
	s.past = 2 * time.Minute
	if _, refused := s.Identify(t.Context(), ours, "10.1.2.3:4"); refused != nil || s.asked.tokens.Load() != asked+1 {
		t.Errorf("after two minutes an answer still counts: %v", refused)
	}
	s.past = 24 * time.Hour
	if _, refused := s.Identify(t.Context(), ours, "10.1.2.3:4"); refused == nil || !strings.Contains(refused.Message, "expired") {
		t.Errorf("a token that has run out counts: %v", refused)
	}
	s.past = 0
	var flood sync.WaitGroup
	var exhausted atomic.Int32
	for range 200 {
		flood.Go(func() {
			if _, refused := s.Identify(t.Context(), "junk", "10.6.6.6:1"); refused.GetReason() == tunnelv1.Reason_REASON_EXHAUSTED {
				exhausted.Add(1)
			}
		})
	}
	if _, refused := s.Identify(t.Context(), default_, "10.1.2.4:1"); refused != nil {
		t.Errorf("one who floods us keeps others out: %v", refused)
	}
	flood.Wait()
	if exhausted.Load() == 0 {
		t.Error("one caller may have the API server asked as often as it likes")
	}
}

func TestRightsOfAUser(t *testing.T) {
	s := newSite(t)
	user := func(name string, groups ...string) identity.User {
		return identity.User{Name: name + "-" + s.namespace, Groups: groups}
	}
	ada, bob, one := user("ada"), user("bob"), user("one", "shop-"+s.namespace)
	sandboxes := func(names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, ResourceNames: names, Verbs: verbs}
	}
	s.Grant(ada.Name, "", sandboxes(nil, "list"), sandboxes([]string{"hers"}, "update"))
	s.Grant(bob.Name, "", sandboxes(nil, "get"))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shop-" + s.namespace}, Rules: []rbacv1.PolicyRule{sandboxes(nil, "update", "list")}}
	s.Create(role, &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: one.Groups[0]}}})
	s.Eventually("the rights count", func() error {
		if refused := s.MayUpdate(t.Context(), one, "any"); refused != nil {
			return fmt.Errorf("%s", refused.Message)
		}
		if refused := s.MayUpdate(t.Context(), ada, "hers"); refused != nil {
			return fmt.Errorf("%s", refused.Message)
		}
		return nil
	})
	for what, c := range map[string]struct {
		refused *tunnelv1.Refused
		want    string
	}{
		"her sandbox":                 {s.MayUpdate(t.Context(), ada, "hers"), ""},
		"another's sandbox":           {s.MayUpdate(t.Context(), ada, "his"), ada.Name + " may not update signadotsandboxes.signadot.com his"},
		"the proxies":                 {s.MayUse(t.Context(), ada), ""},
		"the proxies, with no rights": {s.MayUse(t.Context(), bob), "may not list signadotsandboxes.signadot.com:"},
		"by a group":                  {s.MayUse(t.Context(), one), ""},
		"without the group":           {s.MayUse(t.Context(), identity.User{Name: one.Name}), "may not list"},
	} {
		if (c.want == "") != (c.refused == nil) || c.refused != nil && (c.refused.Reason != tunnelv1.Reason_REASON_FORBIDDEN || !strings.Contains(c.refused.Message, c.want)) {
			t.Errorf("%s: %v, not %q", what, c.refused, c.want)
		}
	}
	if refused := s.MayUse(t.Context(), identity.User{}); refused.GetReason() != tunnelv1.Reason_REASON_UNAUTHENTICATED {
		t.Errorf("a user without a name: %v", refused)
	}
	asked := s.asked.rights.Load()
	if s.MayUpdate(t.Context(), ada, "hers") != nil || s.asked.rights.Load() != asked {
		t.Error("a cached answer is requested again")
	}
	if s.past = time.Minute; s.MayUpdate(t.Context(), ada, "hers") != nil || s.asked.rights.Load() != asked+1 {
		t.Error("after a minute an answer still counts")
	}
	if text := s.logs.String(); !strings.Contains(text, `update signadotsandboxes.signadot.com his`) || !strings.Contains(text, "allowed=false") {
		t.Errorf("the log does not name the right:\n%s", text)
	}
}

// away is an API that cannot be asked while is is true, and allows nothing while denies is.
type away struct {
	authorization.SubjectAccessReviewInterface
	is, denies bool
}

func (a *away) Create(ctx context.Context, r *authorizationv1.SubjectAccessReview, o metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	if a.is {
		return nil, errors.New("connection refused")
	}
	if a.denies {
		return &authorizationv1.SubjectAccessReview{}, nil
	}
	return a.SubjectAccessReviewInterface.Create(ctx, r, o)
}

func TestAGrantedRightIsKeptWhileTheAPIServerIsUnavailable(t *testing.T) {
	s := newSite(t)
	ada := identity.User{Name: "ada-" + s.namespace}
	s.Grant(ada.Name, "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"signadotsandboxes"}, Verbs: []string{"list"}})
	rights := &away{SubjectAccessReviewInterface: s.Kube.AuthorizationV1().SubjectAccessReviews()}
	a, err := access.New(access.Config{Tokens: s.Kube.AuthenticationV1().TokenReviews(), Rights: rights, Clock: func() time.Time { return time.Now().Add(s.past) }})
	s.Must(err)
	s.Eventually("the right counts", func() error {
		if refused := a.MayUse(t.Context(), ada); refused != nil {
			return errors.New(refused.Message)
		}
		return nil
	})
	rights.is, s.past = true, 5*time.Minute
	if refused := a.MayUse(t.Context(), ada); refused != nil {
		t.Errorf("five minutes later: %v", refused)
	}
	if refused := a.MayUpdate(t.Context(), ada, "hers"); refused.GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Errorf("a right without a cached answer: %v", refused)
	}
	if s.past = 11 * time.Minute; a.MayUse(t.Context(), ada).GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Error("eleven minutes later the right still counts")
	}
	// A user that lost the right before the API server became unavailable does not get it back.
	rights.is, s.past = false, 12*time.Minute
	if refused := a.MayUse(t.Context(), ada); refused != nil {
		t.Fatalf("once it is back: %v", refused)
	}
	rights.denies, s.past = true, 13*time.Minute
	if refused := a.MayUse(t.Context(), ada); refused.GetReason() != tunnelv1.Reason_REASON_FORBIDDEN {
		t.Errorf("without the right: %v", refused)
	}
	if rights.is, s.past = true, 14*time.Minute; a.MayUse(t.Context(), ada).GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Error("a right that was lost counts while the API server is away")
	}
}

// careless is an authenticator that accepts every token and checks no audience.
type careless struct {
	authentication.TokenReviewInterface
}

// Create implements authentication.TokenReviewInterface.
func (careless) Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	return &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "ada"}}}, nil
}

// A token for Audience counts only when the authenticator reports that it checked the audience.
func TestAnAuthenticatorThatKnowsNoAudiences(t *testing.T) {
	s := newSite(t)
	a, err := access.New(access.Config{Tokens: careless{}, Rights: s.Kube.AuthorizationV1().SubjectAccessReviews()})
	s.Must(err)
	ours := strings.Join([]string{"e30", base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["tunnel-proxy"]}`)), "c2ln"}, ".")
	if user, refused := a.Identify(t.Context(), ours, "10.1.2.3:4"); refused.GetReason() != tunnelv1.Reason_REASON_UNAUTHENTICATED || !strings.Contains(refused.Message, "audience") {
		t.Errorf("a token for us: %+v, %v", user, refused)
	}
	if user, refused := a.Identify(t.Context(), "of the API server", "10.1.2.3:4"); refused != nil || user.Name != "ada" {
		t.Errorf("a token for the API server: %+v, %v", user, refused)
	}
}

func TestNewSessionsAreRefusedWhileTheAPIServerIsUnavailable(t *testing.T) {
	s := newSite(t)
	s.Accounts(s.namespace, "ada")
	token := s.Token(s.namespace, "ada", "", nil)
	s.open(&rest.Config{Host: "https://127.0.0.1:1"})
	if user, refused := s.Identify(t.Context(), token, "10.1.2.3:4"); refused.GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE || user.Name != "" {
		t.Errorf("%+v, %v", user, refused)
	}
	if refused := s.MayUse(t.Context(), identity.User{Name: "ada"}); refused.GetReason() != tunnelv1.Reason_REASON_UNAVAILABLE {
		t.Errorf("%v", refused)
	}
}
