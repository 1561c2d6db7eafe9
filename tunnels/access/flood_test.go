package access_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tunnels/access"
)

// knows is a webhook that authenticates one opaque token, as clouds and companies have one.
func knows(token, user string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if review.Spec.Token == token {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: user}}
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
}

// A user with an opaque token that only a webhook of the API server knows is admitted at the first attempt,
// whatever others show who come by the same port-forward.
func TestAnOpaqueTokenIsAdmittedDuringAFlood(t *testing.T) {
	const hers = "opaque-hers"
	webhook := knows(hers, "ada@example.com")
	defer webhook.Close()
	config := filepath.Join(t.TempDir(), "webhook.yaml")
	text := `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: "` + webhook.URL + `"}}]}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start("authentication-token-webhook-config-file="+config, "authentication-token-webhook-version=v1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	kube := kubernetes.NewForConfigOrDie(server.Config)
	a, err := access.New(access.Config{Tokens: kube.AuthenticationV1().TokenReviews(), Rights: kube.AuthorizationV1().SubjectAccessReviews()})
	if err != nil {
		t.Fatal(err)
	}
	var flood sync.WaitGroup
	var shown atomic.Int64
	begun, end := make(chan struct{}), make(chan struct{})
	for i := range 300 {
		flood.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				if shown.Add(1) == 600 {
					close(begun)
				}
				_, _ = a.Identify(t.Context(), fmt.Sprintf("opaque-%d-%d", i, n), fmt.Sprintf("127.0.0.1:%d", 1000+i)) // it is refused
			}
		})
	}
	<-begun
	user, refused := a.Identify(t.Context(), hers, "127.0.0.1:999")
	if refused != nil || user.Name != "ada@example.com" {
		t.Errorf("an opaque token beside %d others: %+v, %v", shown.Load(), user, refused)
	}
	if n := a.Accepted(); n != 1 {
		t.Errorf("%d tokens are remembered, and one was accepted", n)
	}
	close(end)
	flood.Wait()
}

// The API server is asked neither about tokens that claim its issuer and that it has not signed,
// nor does a flood of them, from one address, delay a signed token.
func TestForgedTokensAreRefusedWithoutAReview(t *testing.T) {
	s := newSite(t)
	s.Accounts(s.namespace, "ada")
	good := s.Token(s.namespace, "ada", "", nil)
	parts := strings.Split(good, ".")
	asked := s.asked.tokens.Load()
	for n := range 500 {
		forged := parts[0] + "." + parts[1] + "." + fmt.Sprintf("%06d", n) + parts[2][6:]
		if user, refused := s.Identify(t.Context(), forged, "127.0.0.1:1"); refused == nil || !strings.Contains(refused.Message, "no key of the cluster has signed it") {
			t.Fatalf("forged token %d: %+v, %v", n, user, refused)
		}
	}
	if now := s.asked.tokens.Load(); now != asked {
		t.Errorf("the API server was asked about %d forged tokens", now-asked)
	}
	if _, refused := s.Identify(t.Context(), good, "127.0.0.1:1"); refused != nil {
		t.Errorf("a signed token: %v", refused)
	}
	if n := s.Accepted(); n != 0 {
		t.Errorf("%d signed tokens are remembered", n)
	}
}
