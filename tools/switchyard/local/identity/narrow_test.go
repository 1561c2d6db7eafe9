package identity_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/local/identity"
)

func TestMain(m *testing.M) { world.Main(m) }

// TestTokensHaveTheAudienceOfTheProxies asks a real API server, as users with the right to
// request tokens and as users without it.
func TestTokensHaveTheAudienceOfTheProxies(t *testing.T) {
	w := world.Shared(t)
	namespace := w.NewNamespace("narrow")
	w.Accounts(namespace, "ada", "bob")
	w.Grant("system:serviceaccount:"+namespace+":ada", namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"ada"}, Verbs: []string{"create"}})
	as := func(token string) *rest.Config {
		c := rest.AnonymousClientConfig(w.Config)
		c.BearerToken = token
		return c
	}
	ours := w.Token(namespace, "bob", identity.Audience, nil)
	for name, c := range map[string]struct {
		token  string
		narrow bool
		note   string
	}{
		"with the right":    {w.Token(namespace, "ada", "", nil), true, ""},
		"without the right": {w.Token(namespace, "bob", "", nil), false, "may not create serviceaccounts/token"},
		"no account":        {"opaque", false, "no service account"},
		"one for them":      {ours, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var notes []string
			token, err := identity.Narrowed(func() (*rest.Config, error) { return as(c.token), nil }, func(text string) { notes = append(notes, text) })
			w.Must(err)
			for range 2 {
				got, err := token(t.Context(), false)
				w.Must(err)
				claims, _ := tokens.Claims(got)
				if narrow := slices.Contains(claims.Audience, identity.Audience); narrow != c.narrow || !narrow && got != c.token {
					t.Errorf("the audience is %v", claims.Audience)
				}
			}
			if want := min(1, len(c.note)); len(notes) != want || want == 1 && !strings.Contains(notes[0], c.note) {
				t.Errorf("it is noted %q", notes)
			}
		})
	}
}
