package identify

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers/tokens"
)

// asked counts the questions that reach the API server.
type asked struct {
	client.TokenReviewInterface
	n int
}

// Create implements client.TokenReviewInterface.
func (a *asked) Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	a.n++
	return nil, fmt.Errorf("asked")
}

// claiming returns a string in the form of a token with these claims.
func claiming(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." + rand.Text()
}

// A flood of invalid tokens costs the API server nothing, whatever its size: sidecars and
// clients of the bus are authenticated by the same verifier.
func TestInvalidTokensNeedNoTokenReview(t *testing.T) {
	nobody := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	reviews := &asked{}
	verifier, err := tokens.New(tokens.Config{Reviews: reviews, Audience: Audience})
	if err != nil {
		t.Fatal(err)
	}
	i, err := New(Config{Verify: verifier.Verify, Pods: nobody.CoreV1(), ReplicaSets: nobody.AppsV1()})
	if err != nil {
		t.Fatal(err)
	}
	huge := strings.Repeat("x", 1<<20)
	for n := range 2000 {
		for _, token := range []string{
			rand.Text(),
			claiming(`{"aud":["another"],"exp":99999999999}`),
			claiming(`{"aud":["` + Audience + `"],"exp":1}`),
			claiming(`{"aud":["` + Audience + `"],"exp":99999999999`),
		} {
			if _, err := i.Identify(t.Context(), token); status.Code(err) != codes.Unauthenticated {
				t.Fatalf("%d: %.40s: %v", n, token, err)
			}
		}
	}
	for _, token := range []string{"", huge, claiming(`{"aud":["` + Audience + `"],"x":"` + huge + `"}`)} {
		if _, err := i.Identify(t.Context(), token); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%.40s: %v", token, err)
		}
	}
	if reviews.n != 0 {
		t.Errorf("the API server was asked %d times", reviews.n)
	}
	// A token that claims the audience is reviewed: this test sees reviews.
	if _, err := i.Identify(t.Context(), claiming(`{"aud":["`+Audience+`"],"exp":99999999999}`)); status.Code(err) != codes.Unavailable || reviews.n != 1 {
		t.Errorf("%v, after %d questions", err, reviews.n)
	}
}
