package hostile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

// honest are sidecars that do as they should while others attack. Changes are
// made, and each must reach all of them.
type honest struct {
	site    *Site
	end     context.CancelFunc
	all     []*sidecar.Client
	conns   []*grpc.ClientConn
	changes int

	mu     sync.Mutex
	failed error
}

// honestPatience is how long a change may take to all honest sidecars: far more
// than it takes, for the machine may be busy with the attack.
const honestPatience = 4 * time.Second

func beHonest(ctx context.Context, s *Site, tokens []string) (*honest, error) {
	h := &honest{site: s, changes: sandboxes}
	ctx, h.end = context.WithCancel(ctx)
	for _, token := range tokens {
		conn, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		h.conns = append(h.conns, conn)
		one, err := sidecar.Open(ctx, conn, token, customer)
		if err != nil {
			return nil, err
		}
		h.all = append(h.all, one)
		go h.run(one)
	}
	return h, h.await(make([]int64, len(tokens)))
}

// run makes a sidecar accept every response, until the end.
func (h *honest) run(one *sidecar.Client) {
	err := one.Run()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = errors.Join(h.failed, err)
}

// had returns how many responses each sidecar has had.
func (h *honest) had() []int64 {
	all := make([]int64, len(h.all))
	for i, one := range h.all {
		all[i] = one.Had()
	}
	return all
}

// await waits until every sidecar has had more than it had.
func (h *honest) await(had []int64) error {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		missing := 0
		for i, now := range h.had() {
			if now <= had[i] {
				missing++
			}
		}
		h.mu.Lock()
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

// begin makes changes until the function it returns is called, which returns how many there were
// and how long the slowest took.
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
	had, begun := h.had(), time.Now()
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
	for _, c := range h.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
