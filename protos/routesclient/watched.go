package routesclient

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	pb "switchyard.dev/protos/gen/routes"
)

// The pauses between attempts to watch: the first and the longest.
const firstPause, longestPause = time.Second, 15 * time.Second

// identity is what a rule is known by.
type identity struct {
	baseline Baseline
	key      string
}

// Watched has the rules that match a filter, as they were when the server last sent them. While
// the server is unavailable it keeps the last ones. Its methods can be called concurrently.
type Watched struct {
	synced chan struct{}

	mu    sync.RWMutex
	rules map[identity]*pb.WorkloadRoutingRule
	once  sync.Once
}

// Watch returns the rules that match the filter and keeps them current until ctx is done. Wait
// for Synced before the first question.
func (c *Client) Watch(ctx context.Context, filter Filter) *Watched {
	w := &Watched{synced: make(chan struct{}), rules: map[identity]*pb.WorkloadRoutingRule{}}
	go func() {
		pause := firstPause
		for ctx.Err() == nil {
			if w.follow(ctx, c.api, filter) {
				pause = firstPause
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause/2 + rand.N(pause/2)): // so that not all clients return at once
			}
			pause = min(2*pause, longestPause)
		}
	}()
	return w
}

// follow applies one stream until it ends, and reports whether it sent all rules.
func (w *Watched) follow(ctx context.Context, api pb.RoutesClient, filter Filter) (complete bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := api.WatchWorkloadRoutingRules(ctx, filter.request())
	if err != nil {
		return false
	}
	rules := map[identity]*pb.WorkloadRoutingRule{} // until all are here, the earlier ones stay
	for {
		op, err := stream.Recv()
		if err != nil {
			return complete
		}
		complete = w.apply(rules, op) || complete
	}
}

// apply applies a change to the rules of a stream, and shows these once they are complete. It
// reports whether that is so.
func (w *Watched) apply(rules map[identity]*pb.WorkloadRoutingRule, op *pb.WorkloadRoutingRuleOp) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch op.GetOp() {
	case pb.WatchOp_SYNCED:
		w.rules = rules
		w.once.Do(func() { close(w.synced) })
		return true
	case pb.WatchOp_REMOVE:
		delete(rules, identityOf(op.GetRoute()))
	default: // ADD, REPLACE
		rules[identityOf(op.GetRoute())] = op.GetRoute()
	}
	return false
}

// Synced is closed once all rules have been received.
func (w *Watched) Synced() <-chan struct{} { return w.synced }

// Rule returns the rule for requests of a baseline with a routing key, or nil. Do not change it.
func (w *Watched) Rule(baseline Baseline, routingKey string) *pb.WorkloadRoutingRule {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.rules[identity{baseline, routingKey}]
}

// Processes reports whether a consumer has to process a message with a routing key, when every
// consumer receives all messages. The sandbox is SIGNADOT_SANDBOX_NAME of the consumer's pod, empty
// in pods of the baseline itself: a fork processes the messages of its sandbox, the baseline
// those that no sandbox forks it for.
func (w *Watched) Processes(baseline Baseline, sandbox, routingKey string) bool {
	rule := w.Rule(baseline, routingKey)
	if sandbox == "" {
		return rule == nil
	}
	return rule.GetDestinationSandbox().GetName() == sandbox
}

func identityOf(r *pb.WorkloadRoutingRule) identity {
	b := r.GetBaseline()
	return identity{Baseline{b.GetKind(), b.GetNamespace(), b.GetName()}, r.GetRoutingKey()}
}
