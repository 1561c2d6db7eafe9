package forwarded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/access"
)

// hers is the opaque token.
const hers = "opaque-hers"

// knowing is a webhook that authenticates one token.
func knowing(token string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if review.Spec.Token == token {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "ada"}}
		}
		_ = json.NewEncoder(w).Encode(review) // the API server asks again
	}))
}

// opaque measures the time until an opaque token of a webhook authenticator is admitted while
// attackers present invalid ones. It uses a separate API server with such a webhook, which the
// cluster's has not; the tunnel proxy's token reviewer is called directly.
func opaque(ctx context.Context, out io.Writer) (err error) {
	webhook := knowing(hers)
	defer webhook.Close()
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := filepath.Join(dir, "webhook.yaml")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: %q}}]}`, webhook.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	server, err := apiserver.Bare("authentication-token-webhook-config-file="+config, "authentication-token-webhook-version=v1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	kube, err := kubernetes.NewForConfig(server.Config)
	if err != nil {
		return err
	}
	a, err := access.New(access.Config{Tokens: kube.AuthenticationV1().TokenReviews(), Rights: kube.AuthorizationV1().SubjectAccessReviews(),
		Issuer: tokens.NewIssuer(kube.Discovery().RESTClient(), nil)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var flood sync.WaitGroup
	var shown atomic.Int64
	for i := range attackers {
		flood.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				_, refused := a.Identify(ctx, fmt.Sprintf("opaque-%d-%d", i, n), fmt.Sprintf("127.0.0.1:%d", 1000+i))
				shown.Add(1)
				if refused != nil {
					_ = wait.For(ctx, 10*time.Millisecond) // each over a connection of its own
				}
			}
		})
	}
	_ = wait.For(ctx, 5*time.Second)
	begun := time.Now()
	user, refused := a.Identify(ctx, hers, "127.0.0.1:999")
	took := time.Since(begun)
	cancel()
	flood.Wait()
	figures.Text(out, "TUNNEL_ACCESS_OPAQUE_TOKEN", fmt.Sprintf("%.2f", took.Seconds()), "s",
		fmt.Sprintf("admitted beside %d attackers with junk tokens, of which %d were sent; the refusal was %q", attackers, shown.Load(), refused.GetMessage()), user.Name == "ada")
	return nil
}
