package tokens_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/tests/world"
)

// published are the keys of the real API server, which cannot be had while away, and count how
// often they are asked for.
type published struct {
	real  tokens.ReadKeys
	away  atomic.Bool
	asked atomic.Int32
}

func (p *published) read(ctx context.Context) ([]byte, error) {
	p.asked.Add(1)
	if p.away.Load() {
		return nil, errors.New("away")
	}
	return p.real(ctx)
}

// knowing returns a verifier that reads keys.
func knowing(t *testing.T) (*tokens.Verifier, *counting, *published, *clock) {
	t.Helper()
	kube := world.Shared(t).Kube
	reviews, clock := &counting{TokenReviewInterface: kube.AuthenticationV1().TokenReviews()}, &clock{}
	keys := &published{real: tokens.PublishedKeys(kube.Discovery().RESTClient())}
	v, err := tokens.New(tokens.Config{Reviews: reviews, Audience: audience, Clock: clock.now, Keys: keys.read})
	if err != nil {
		t.Fatal(err)
	}
	return v, reviews, keys, clock
}

func TestTheAPIServerIsNotAskedAboutWhatItHasNotSigned(t *testing.T) {
	v, reviews, keys, clock := knowing(t)
	p := pod(t)
	good := tokenOf(t, p.Namespace, p, audience)
	forgeries := map[string]string{
		"a false signature":   good[:len(good)-8] + "AAAAAAAA",
		"an unknown key":      headed(good, `{"alg":"ES256","kid":"none"}`),
		"no signature":        headed(good, `{"alg":"none"}`),
		"a key of its own":    headed(good, `{"alg":"HS256","kid":"none"}`),
		"a head that is none": headed(good, `hello`),
	}
	for range 3 {
		for what, token := range forgeries {
			if got, err := v.Verify(t.Context(), token); !errors.Is(err, tokens.ErrUnknown) {
				t.Errorf("%s: %v, %v", what, got, err)
			}
		}
	}
	if reviews.asked.Load() != 0 || keys.asked.Load() != 1 {
		t.Errorf("the API server was asked about %d forgeries, and %d times for its keys", reviews.asked.Load(), keys.asked.Load())
	}
	var charged string
	identity, err := v.VerifyAdmitted(t.Context(), good, func(signed *tokens.Claim) (func(), error) {
		if signed != nil {
			charged = signed.Bound.Pod.UID
		}
		return func() {}, nil
	})
	if err != nil || identity.PodUID != string(p.UID) || charged != string(p.UID) || reviews.asked.Load() != 1 {
		t.Errorf("a good token: %v, %v, charged to %q, asked %d times", identity, err, charged, reviews.asked.Load())
	}
	// Signed tokens are still reviewed: the pod may be deleted.
	clock.past += tokens.MaxCache
	if _, err := v.Verify(t.Context(), good); err != nil || reviews.asked.Load() != 2 {
		t.Errorf("a good token after a minute: %v, asked %d times", err, reviews.asked.Load())
	}
}

func TestWithoutKeysTheAPIServerIsAsked(t *testing.T) {
	v, reviews, keys, clock := knowing(t)
	keys.away.Store(true)
	p := pod(t)
	good := tokenOf(t, p.Namespace, p, audience)
	forged := good[:len(good)-8] + "AAAAAAAA"
	if _, err := v.Verify(t.Context(), forged); !errors.Is(err, tokens.ErrUnknown) || reviews.asked.Load() != 1 {
		t.Errorf("a forgery: %v, asked %d times", err, reviews.asked.Load())
	}
	if _, err := v.Verify(t.Context(), good); err != nil || reviews.asked.Load() != 2 {
		t.Errorf("a good token: %v, asked %d times", err, reviews.asked.Load())
	}
	keys.away.Store(false)
	clock.past += 20 * time.Second
	if _, err := v.Verify(t.Context(), forged); !errors.Is(err, tokens.ErrUnknown) || reviews.asked.Load() != 2 || keys.asked.Load() != 2 {
		t.Errorf("a forgery once the keys are there: %v, asked %d times, and %d times for keys", err, reviews.asked.Load(), keys.asked.Load())
	}
}

// headed returns a token with another head.
func headed(token, head string) string {
	_, rest, _ := strings.Cut(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + rest
}
