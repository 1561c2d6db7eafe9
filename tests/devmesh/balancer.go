package devmesh

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// balancer acts as the Service of a baseline: like kube-proxy, it assigns each new connection to
// one of the ready pods, where it stays.
type balancer struct {
	pods []*pod
	mu   sync.Mutex
	in   map[*pod]bool
}

// probePeriod is how long it takes at most until a pod that reports that it is not ready, or
// accepts no connection, gets no new ones. One that does not answer is given up after so many
// probes, as the injector configures it: on a busy machine an answer may be late.
const (
	probePeriod  = 200 * time.Millisecond
	probesMissed = 3
)

func newBalancer(pods []*pod) *balancer {
	b := &balancer{pods: pods, in: map[*pod]bool{}}
	for _, p := range pods {
		b.in[p] = true
	}
	return b
}

// probe keeps the balancer up to date until ctx ends.
func (b *balancer) probe(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, p := range b.pods {
		all.Go(func() {
			missed := 0
			for tick := time.NewTicker(probePeriod); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
				err := p.ready(ctx)
				if missed++; !isTimeout(err) {
					missed = 0
				}
				b.mu.Lock()
				b.in[p] = err == nil || b.in[p] && missed > 0 && missed < probesMissed
				b.mu.Unlock()
			}
		})
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// balanced is a connection to a pod.
type balanced struct {
	net.Conn
	pod *pod
}

// dialError is why no connection to a pod could be made.
type dialError struct {
	pod *pod
	err error
}

func (e *dialError) Error() string { return fmt.Sprintf("connect to %s: %v", e.pod.name, e.err) }
func (e *dialError) Unwrap() error { return e.err }

// dial makes a connection to one of the pods.
func (b *balancer) dial(ctx context.Context) (net.Conn, error) {
	b.mu.Lock()
	var ready []*pod
	for _, p := range b.pods {
		if b.in[p] {
			ready = append(ready, p)
		}
	}
	b.mu.Unlock()
	if len(ready) == 0 {
		return nil, errors.New("no pod of the baseline is ready")
	}
	p := ready[rand.IntN(len(ready))]
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", p.address())
	if err != nil {
		return nil, &dialError{p, err}
	}
	return &balanced{Conn: conn, pod: p}, nil
}
