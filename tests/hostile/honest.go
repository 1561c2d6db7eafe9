package hostile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"switchyard.dev/tests/wait"
)

// honest are sidecars that do as they should while others attack. Changes are
// made, and each must reach all of them.
type honest struct {
	site *Site
	end  context.CancelFunc
	all  []*stream

	mu      sync.Mutex
	had     []int // how many responses each has had
	failed  error
	changes int
	// connected ends the connections.
	connected []func() error
}

// honestPatience is how long a change may take to all honest sidecars: far more
// than it takes, for the machine may be busy with the attack.
const honestPatience = 4 * time.Second

func beHonest(ctx context.Context, s *Site, tokens []string) (*honest, error) {
	h := &honest{site: s, had: make([]int, len(tokens)), changes: sandboxes}
	ctx, h.end = context.WithCancel(ctx)
	for i, token := range tokens {
		conn, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		h.connected = append(h.connected, conn.Close)
		one, err := open(ctx, conn, token)
		if err != nil {
			return nil, err
		}
		h.all = append(h.all, one)
		if err := one.subscribe(); err != nil {
			return nil, err
		}
		go h.serve(i, one)
	}
	return h, h.await(make([]int, len(tokens)))
}

// serve accepts what comes, until the end.
func (h *honest) serve(i int, one *stream) {
	for {
		r, err := one.next()
		if err == nil {
			err = one.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
		}
		h.mu.Lock()
		if err != nil {
			h.failed = errors.Join(h.failed, err)
			h.mu.Unlock()
			return
		}
		h.had[i]++
		h.mu.Unlock()
	}
}

// await waits until every sidecar has had more than it had.
func (h *honest) await(had []int) error {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		missing := 0
		for i := range had {
			if h.had[i] <= had[i] {
				missing++
			}
		}
		failed := h.failed
		h.mu.Unlock()
		switch {
		case failed != nil:
			return fmt.Errorf("an honest sidecar was not served: %w", failed)
		case missing == 0:
			return nil
		case time.Since(begun) > honestPatience:
			return fmt.Errorf("%d of %d honest sidecars have not had a change within %s", missing, len(had), honestPatience)
		}
	}
}

// begin makes changes until the function it gives is called, which tells how many
// there were and how long the slowest took.
func (h *honest) begin(ctx context.Context) (stop func() (int, time.Duration, error)) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var changes int
	var slowest time.Duration
	var err error
	go func() {
		defer close(done)
		for ; ctx.Err() == nil && err == nil; changes++ {
			var took time.Duration
			took, err = h.change()
			slowest = max(slowest, took)
			_ = wait.For(ctx, 100*time.Millisecond)
		}
	}()
	return func() (int, time.Duration, error) { cancel(); <-done; return changes, slowest, err }
}

func (h *honest) change() (time.Duration, error) {
	h.mu.Lock()
	had := slices.Clone(h.had)
	h.mu.Unlock()
	begun := time.Now()
	h.changes++ // one sandbox more: a few KiB in all
	if err := h.site.target.Call("Declare", h.changes, nil); err != nil {
		return 0, err
	}
	err := h.await(had)
	return time.Since(begun), err
}

func (h *honest) close() error {
	h.end()
	var errs []error
	for _, c := range h.connected {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
