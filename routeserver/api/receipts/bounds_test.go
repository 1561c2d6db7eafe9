package receipts

import (
	"testing"
	"time"

	"switchyard.dev/eventbus/callers"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Who shows nothing waits for half a minute and is answered then, whatever it asked for.
func TestAnAnonymousWaitIsShort(t *testing.T) {
	stranger, pod, ours := callers.At("10.0.0.1"), callers.Caller{Kind: callers.Pod}, callers.Caller{Kind: callers.Ours}
	for _, c := range []struct {
		who   callers.Caller
		asked int32
		want  time.Duration
	}{
		{stranger, 0, waitDefault}, {stranger, 20, 20 * time.Second}, {stranger, 300, strangersWait},
		{pod, 300, waitMax}, {ours, 300, waitMax}, {ours, 0, waitDefault},
	} {
		got, _, err := boundsOf(&routingv1.WaitRequest{TimeoutSeconds: c.asked}, c.who)
		if err != nil || got != c.want {
			t.Errorf("%v asks for %d s: %s, %v", c.who, c.asked, got, err)
		}
	}
	if _, _, err := boundsOf(&routingv1.WaitRequest{TimeoutSeconds: 301}, stranger); err == nil {
		t.Error("301 s: accepted")
	}
}
