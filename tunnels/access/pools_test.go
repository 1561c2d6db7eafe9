package access

import (
	"context"
	"testing"
	"time"

	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// The refusal without a turn is one sentence, also where the caller waits no longer.
func TestAReviewWithoutATurnIsRefusedForNow(t *testing.T) {
	ended, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	for what, c := range map[string]struct {
		ctx   context.Context
		turns *turns
	}{
		"no turn in time":   {t.Context(), newTurns(1, 1e-9, 0)},
		"no place":          {ended, newTurns(0, 100, 1)},
		"waits no longer":   {ended, newTurns(1, 100, 1)},
		"too many a second": {ended, newTurns(1, 1e-9, 1)},
	} {
		a, err := New(Config{Tokens: authentication.New(nil).TokenReviews(), Rights: authorization.New(nil).SubjectAccessReviews()})
		if err != nil {
			t.Fatal(err)
		}
		a.checks.unknown = c.turns
		const want = "Too many unknown tokens are being checked: try again in a few seconds."
		if _, refused := a.Identify(c.ctx, "opaque", "192.0.2.1:1"); refused.GetMessage() != want {
			t.Errorf("%s: %q", what, refused.GetMessage())
		}
	}
}
