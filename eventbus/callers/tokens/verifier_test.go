package tokens_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

const audience = "eventbus.signadot.svc"

func TestMain(m *testing.M) { world.Main(m) }

// counting counts the questions to the real API.
type counting struct {
	client.TokenReviewInterface
	asked atomic.Int32
}

func (c *counting) Create(ctx context.Context, r *authenticationv1.TokenReview, o metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	c.asked.Add(1)
	return c.TokenReviewInterface.Create(ctx, r, o)
}

// clock is a time that the test moves.
type clock struct{ past time.Duration }

func (c *clock) now() time.Time { return time.Now().Add(c.past) }

func verifier(t *testing.T) (*tokens.Verifier, *counting, *clock) {
	t.Helper()
	reviews, clock := &counting{TokenReviewInterface: world.Shared(t).Kube.AuthenticationV1().TokenReviews()}, &clock{}
	v, err := tokens.New(tokens.Config{Reviews: reviews, Audience: audience, Clock: clock.now})
	if err != nil {
		t.Fatal(err)
	}
	return v, reviews, clock
}

// pod makes a pod with a service account in a namespace of its own.
func pod(t *testing.T) *corev1.Pod {
	t.Helper()
	w := world.Shared(t)
	ns := w.NewNamespace("caller")
	w.Accounts(ns, "routeserver")
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"},
		Spec:       corev1.PodSpec{ServiceAccountName: "routeserver", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	w.Create(p)
	return p
}

// tokenOf returns a token as the kubelet would project it; of no pod for nil.
func tokenOf(t *testing.T, namespace string, of *corev1.Pod, audiences ...string) string {
	t.Helper()
	seconds := int64(600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: &seconds}}
	if of != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: of.Name, UID: of.UID}
	}
	answer, err := world.Shared(t).Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "routeserver", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

func TestATokenOfAPodNamesItsServiceAccountAndThePod(t *testing.T) {
	v, _, _ := verifier(t)
	p := pod(t)
	got, err := v.Verify(t.Context(), tokenOf(t, p.Namespace, p, audience))
	want := tokens.Identity{Namespace: p.Namespace, ServiceAccount: "routeserver", PodName: p.Name, PodUID: string(p.UID)}
	if err != nil || got != want {
		t.Errorf("the identity is %v, %v; want %v", got, err, want)
	}
	got, err = v.Verify(t.Context(), tokenOf(t, p.Namespace, nil, "another", audience))
	if want := (tokens.Identity{Namespace: p.Namespace, ServiceAccount: "routeserver"}); err != nil || got != want {
		t.Errorf("of a token for no pod the identity is %v, %v; want %v", got, err, want)
	}
}

func TestTokensThatSayNothingHere(t *testing.T) {
	v, _, _ := verifier(t)
	p := pod(t)
	good := tokenOf(t, p.Namespace, p, audience)
	for what, token := range map[string]string{
		"none":                      "",
		"no token":                  "hello",
		"one for another audience":  tokenOf(t, p.Namespace, p, "xds.signadot.svc"),
		"one for the API server":    tokenOf(t, p.Namespace, p),
		"one with a false signer":   good[:len(good)-8] + "AAAAAAAA",
		"one that has expired":      resigned(t, good, func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Minute).Unix() }),
		"one of another pod's life": resigned(t, good, func(c map[string]any) { podOf(c)["uid"] = "00000000-0000-0000-0000-000000000000" }),
		"one without end":           strings.Repeat("x", 1<<20),
	} {
		if got, err := v.Verify(t.Context(), token); !errors.Is(err, tokens.ErrUnknown) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	// Signing again by itself does no harm: the claims were the defect.
	if _, err := v.Verify(t.Context(), resigned(t, good, func(map[string]any) {})); err != nil {
		t.Errorf("a token signed again: %v", err)
	}
}

func TestATokenOfADeletedPodIsSoonUnknown(t *testing.T) {
	v, reviews, clock := verifier(t)
	p := pod(t)
	token := tokenOf(t, p.Namespace, p, audience)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	world.Shared(t).Remove(p)
	if _, err := v.Verify(t.Context(), token); err != nil || reviews.asked.Load() != 1 {
		t.Errorf("within a minute the answer is kept: %v, asked %d times", err, reviews.asked.Load())
	}
	clock.past += tokens.MaxCache
	// The API server looks pods up in a cache of its own, which follows.
	wait.Holds(t, "the token of a deleted pod is unknown", func() bool {
		_, err := v.Verify(t.Context(), token)
		clock.past += tokens.MaxCache
		return errors.Is(err, tokens.ErrUnknown)
	})
}

func TestOnlyAQuestionToTheAPIServerIsAdmitted(t *testing.T) {
	v, reviews, _ := verifier(t)
	p := pod(t)
	token := tokenOf(t, p.Namespace, p, audience)
	if c, ok := tokens.Claims(token); !ok || c.Account() != p.Namespace+"/routeserver" {
		t.Errorf("the token says that it is %q's", c.Account())
	}
	asked, left, closed := 0, 0, errors.New("closed")
	admit := func(*tokens.Claim) (func(), error) { asked++; return func() { left++ }, nil }
	refuse := func(*tokens.Claim) (func(), error) { asked++; return nil, closed }
	if _, err := v.VerifyAdmitted(t.Context(), token, refuse); !errors.Is(err, tokens.ErrUnchecked) || !errors.Is(err, closed) {
		t.Errorf("got %v", err)
	}
	for range 10 {
		if _, err := v.VerifyAdmitted(t.Context(), token, admit); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.VerifyAdmitted(t.Context(), "junk", admit); !errors.Is(err, tokens.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if asked != 2 || left != 1 || reviews.asked.Load() != 1 {
		t.Errorf("asked %d times whether, %d questions ended, of %d", asked, left, reviews.asked.Load())
	}
}

func TestAnswersAreKeptForAMinuteAndNotPastTheToken(t *testing.T) {
	v, reviews, clock := verifier(t)
	p := pod(t)
	token := tokenOf(t, p.Namespace, p, audience)
	soon := resigned(t, token, func(c map[string]any) { c["exp"] = time.Now().Add(30 * time.Second).Unix() })
	forged := token[:len(token)-8] + "AAAAAAAA"
	others := tokenOf(t, p.Namespace, p, "xds.signadot.svc")
	for i, step := range []struct {
		past  time.Duration
		token string
		asked int32
	}{
		{0, token, 1}, {0, token, 1}, {59 * time.Second, token, 1}, {60 * time.Second, token, 2},
		{0, soon, 3}, {20 * time.Second, soon, 3}, {40 * time.Second, soon, 4},
		{0, forged, 5}, {0, forged, 6}, {0, "nobody", 6}, {0, others, 6},
	} {
		clock.past = step.past
		if _, err := v.Verify(t.Context(), step.token); (err != nil) != (step.token != token && step.token != soon) {
			t.Fatalf("step %d: %v", i, err)
		}
		if asked := reviews.asked.Load(); asked != step.asked {
			t.Errorf("step %d: the API server was asked %d times, not %d", i, asked, step.asked)
		}
	}
}

func TestWithoutTheAPIServerOnlyKeptAnswersCount(t *testing.T) {
	away := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	v, err := tokens.New(tokens.Config{Reviews: away.AuthenticationV1().TokenReviews(), Audience: audience})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), "e30.eyJhdWQiOlsiZXZlbnRidXMuc2lnbmFkb3Quc3ZjIl19.c2ln"); !errors.Is(err, tokens.ErrUnchecked) {
		t.Errorf("without an API server: %v", err)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	reviews := world.Shared(t).Kube.AuthenticationV1().TokenReviews()
	for what, c := range map[string]tokens.Config{
		"no reviews":  {Audience: audience},
		"no audience": {Reviews: reviews},
	} {
		if _, err := tokens.New(c); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// resigned changes the claims of a token and signs it with the API server's own
// key: what the server would have made at another time.
func resigned(t *testing.T, token string, change func(claims map[string]any)) string {
	t.Helper()
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exp", "iat", "nbf"} { // whole numbers, which JSON reads as floats
		claims[name] = int64(claims[name].(float64))
	}
	change(claims)
	if text, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(text)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, signer(t), digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func podOf(claims map[string]any) map[string]any {
	return claims["kubernetes.io"].(map[string]any)["pod"].(map[string]any)
}

// signer is the key with which the API server of this test signs tokens.
func signer(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(world.Shared(t).Keys, "sa-signer.key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatal("the key of the API server is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("the key of the API server is a %T", key)
	}
	return signer
}
