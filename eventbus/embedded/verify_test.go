package embedded

import (
	"context"
	"errors"
	"testing"

	"switchyard.dev/eventbus/event"
)

// So it is when a server is closed while it opens its store again.
func TestVerifyingIsNotBegunOnAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&opened{}).verify(ctx, event.Mark{}); !errors.Is(err, context.Canceled) {
		t.Errorf("verified: %v", err)
	}
}
