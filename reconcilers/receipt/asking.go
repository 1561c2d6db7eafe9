package receipt

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// How long a route server waits for acknowledgements: briefly at first, so that users soon see which
// proxies are behind.
const (
	firstSeconds, laterSeconds = 1, 5
	// grace is added for the timeout of the request.
	grace = 5 * time.Second
)

// The pause before a question that has failed is asked again.
const firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second

// question is one that is under way.
type question struct {
	name     string
	entry    *entry
	ask      Ask
	failures int
	repeated bool
}

// pursue asks once, when it is the question's turn, records the answer, and requeues the RoutingConfig.
// It does neither if ctx ends before, since another question has replaced this one.
func (r *Receipts) pursue(ctx context.Context, q question) {
	if answer, ok := r.inTurn(ctx, q); !ok || !r.note(ctx, q, answer) {
		return
	}
	o := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: q.name}}
	select {
	case r.config.Again <- ctrlevent.GenericEvent{Object: o}:
	case <-r.running.Done():
	}
}

// inTurn asks when there is room for the question.
func (r *Receipts) inTurn(ctx context.Context, q question) (Answer, bool) {
	if q.failures > 0 && !wake.Sleep(ctx, pauseAfter(q.failures)) {
		return Answer{}, false
	}
	if q.repeated {
		if r.repeated.Acquire(ctx, 1) != nil {
			return Answer{}, false
		}
		defer r.repeated.Release(1)
	}
	if r.all.Acquire(ctx, 1) != nil {
		return Answer{}, false
	}
	defer r.all.Release(1)
	return r.put(ctx, q), true
}

// put puts the question to the route server.
func (r *Receipts) put(ctx context.Context, q question) Answer {
	seconds := int32(firstSeconds)
	if q.repeated {
		seconds = laterSeconds
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+grace)
	defer cancel()
	got, err := r.client.Wait(ctx, &routingv1.WaitRequest{RoutingKey: q.ask.Key, TimeoutSeconds: seconds, Pods: q.ask.Pods, ConnectedOnly: true})
	if err != nil {
		return Answer{Trouble: status.Convert(err).Message()}
	}
	if got.GetConverged() {
		return Answer{Had: true, Proxies: int(got.GetSidecars())}
	}
	a := Answer{Proxies: int(got.GetSidecars()), Missing: got.GetMissing(), Silent: got.GetSilent()}
	for _, c := range got.GetLagging() {
		a.Behind = append(a.Behind, Proxy{Pod: c.GetNamespace() + "/" + c.GetPod(), Rejected: c.GetRejected()})
	}
	if a.IsUnknown() {
		a.Trouble = "it does not know a rule of this key yet"
	}
	return a
}

// note records the answer, and reports whether it did. It does not if another question has replaced
// this one.
func (r *Receipts) note(ctx context.Context, q question, a Answer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	e := q.entry
	e.end() // frees what the context holds
	e.answer = a
	if e.answers++; e.answers == 1 {
		close(e.answered)
	}
	switch {
	case a.Had:
		r.metrics.took.Observe(time.Since(e.since).Seconds())
	case a.Trouble == "":
		e.failures = 0
	default:
		if e.failures++; e.failures == 1 {
			r.config.Logger.Warn("the route server does not report acknowledgements of a routing key", "key", q.ask.Key, "error", a.Trouble)
		}
	}
	return true
}

// pauseAfter returns the pause after so many failures, spread so that not all keys
// are asked for at the same moment.
func pauseAfter(failures int) time.Duration {
	pause := longestPause
	if failures < 7 {
		pause = min(firstPause<<(failures-1), longestPause)
	}
	return pause/2 + rand.N(pause/2+1)
}
