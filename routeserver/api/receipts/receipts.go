// Package receipts reports the versions that DevMesh sidecars have acknowledged, over all route
// servers. Sidecar and Receipts.Wait document the guarantees of an acknowledgement.
package receipts

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/versions"
	"switchyard.dev/routeserver/table"
)

// Bounds of a wait.
const (
	waitDefault = 10 * time.Second
	waitMax     = 300 * time.Second
	// strangersWait is the maximum wait of anonymous callers. A longer request returns then, and
	// the client can retry.
	strangersWait = 30 * time.Second
	// maxPods is how many pods one wait may name.
	maxPods = 10_000
	// Poll intervals while there is no notification of acknowledgements.
	lookFirst, lookLast = 5 * time.Millisecond, 250 * time.Millisecond
)

// Wait implements the call of that name.
//
// A sidecar has acknowledged a position when the version that it acknowledged last is the one that
// follows, for its workload, from the table at that position or at a later one (Sidecar.Reached). A
// sidecar acknowledges only versions that its Envoy has accepted. So the routes that this Envoy has
// accepted last are those of a table that contains all events up to the position.
//
// With a routing key it also requires one connected sidecar of each baseline that needs one for
// requests with the key (wanted.unconnected), unless the request counts connected ones only.
//
// It proves nothing about other pods without a sidecar, or with one that is not connected at the
// moment (a route server that has just started knows no sidecar until they reconnect, within
// seconds), unless the caller names the pods. Nor does it prove that a request in progress was
// routed again, because Envoy's workers apply new routes a moment after it accepts them. If Envoy
// rejects some routes of a sidecar, it uses the others, and none of them count as acknowledged: the
// response lists the sidecar with the reason.
//
// With a routing key, only the sidecars of those baselines count for which the key has a rule, or
// had one within the retained log. Without such a baseline there is nothing to acknowledge: the
// operator may not have recorded an object that was just applied, or the key is mistyped. So Wait
// waits for a baseline first.
//
// It is woken by acknowledgements of sidecars connected here (Acknowledging). The other route
// servers are queried once all of those have acknowledged: see look.go.
func (r *Receipts) Wait(ctx context.Context, req *routingv1.WaitRequest) (*routingv1.WaitResponse, error) {
	within, pods, err := boundsOf(req, callers.From(ctx))
	if err != nil {
		return nil, err
	}
	ended, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	who, err := r.awaitConcerned(ended, req.GetRoutingKey())
	if err == nil && ended.Err() != nil && ctx.Err() == nil {
		t, _ := r.versions.Tables.Current()
		return &routingv1.WaitResponse{Version: r.versions.Version(t), Missing: pods}, nil // no sidecar counts
	}
	if err != nil {
		return nil, r.versions.Failed(ended, err)
	}
	pos, err := r.toWaitFor(ended, req.GetPosition())
	if err != nil {
		return nil, r.versions.Failed(ended, err)
	}
	if _, err := r.versions.Reach(ended, pos); err != nil {
		return nil, r.versions.Failed(ended, err)
	}
	out, err := r.await(ctx, ended, wanted{pos: pos, who: who, pods: pods, key: req.GetRoutingKey(), connectedOnly: req.GetConnectedOnly()})
	return out, r.versions.Failed(ctx, err)
}

// boundsOf returns how long to wait and the pods that have to be there, each once.
func boundsOf(req *routingv1.WaitRequest, who callers.Caller) (within time.Duration, pods []string, err error) {
	within = time.Duration(req.GetTimeoutSeconds()) * time.Second
	if within < 0 || within > waitMax {
		return 0, nil, failure.Invalid("timeout_seconds", "%d is not between 0 and %d", req.GetTimeoutSeconds(), waitMax/time.Second)
	}
	within = cmp.Or(within, waitDefault)
	if who.Kind == callers.Stranger {
		within = min(within, strangersWait)
	}
	if n := len(req.GetPods()); n > maxPods {
		return 0, nil, failure.Invalid("pods", "%d pods are more than %d", n, maxPods)
	}
	named := map[string]bool{}
	for i, pod := range req.GetPods() {
		if ns, name, ok := strings.Cut(pod, "/"); !ok || ns == "" || name == "" || strings.Contains(name, "/") {
			return 0, nil, failure.Invalid(fmt.Sprintf("pods[%d]", i), "%q is not of the form namespace/name", pod)
		}
		if !named[pod] {
			named[pod] = true
			pods = append(pods, pod)
		}
	}
	return within, pods, nil
}

// wanted is the set of sidecars that must acknowledge, and the position.
type wanted struct {
	pos  event.Pos
	who  concerned
	pods []string
	// key is the routing key, or empty. connectedOnly: baselines without sidecars do not count.
	key           string
	connectedOnly bool
}

// await looks until all have acknowledged, or the time is over; ctx is the
// caller's.
func (r *Receipts) await(ctx, ended context.Context, w wanted) (*routingv1.WaitResponse, error) {
	pause, askOthers := lookFirst, time.Time{}
	for {
		news := r.news()
		out, err := r.look(ctx, w, false)
		here := err == nil && len(out.GetLagging()) == 0
		if here && !time.Now().Before(askOthers) {
			if askOthers.IsZero() {
				pause = lookFirst // the others' sidecars are about to have it, too
			}
			out, err = r.look(ctx, w, true)
			askOthers = time.Now().Add(pause)
		}
		if err != nil || out.GetConverged() {
			return out, err
		}
		if !here && news != nil {
			pause = lookLast // notifications wake it; polling is only a safety net
		}
		select {
		case <-news:
		case <-time.After(pause):
			pause = min(2*pause, lookLast)
		case <-r.versions.Stopping.Done():
			return nil, failure.Stopping
		case <-ended.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			// The query is completed even when the time is up: its result is the response.
			return r.look(ctx, w, true)
		}
	}
}

// awaitConcerned waits until a routing key concerns a baseline, and returns those
// that it does; none when the time is over before.
func (r *Receipts) awaitConcerned(ctx context.Context, routingKey string) (concerned, error) {
	for {
		who, err := r.concerned(ctx, routingKey)
		if err != nil && ctx.Err() == nil || routingKey == "" || len(who) > 0 {
			return who, err
		}
		select {
		case <-time.After(lookLast):
		case <-r.versions.Stopping.Done():
			return nil, failure.Stopping
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// toWaitFor returns the position that is to be acknowledged.
func (r *Receipts) toWaitFor(ctx context.Context, p *routingv1.Position) (event.Pos, error) {
	tip, err := r.versions.Log.Tip(ctx)
	if err != nil || p == nil {
		return tip, err
	}
	pos, err := r.versions.Position("position", p)
	if err == nil && pos.Epoch == tip.Epoch && pos.Seq > tip.Seq {
		err = failure.NotReached(fmt.Sprintf("%d has not been reached: the routing log ends at %d", pos.Seq, tip.Seq))
	}
	return pos, err
}

// concerned is the set of baselines with sidecars that count; nil: all.
type concerned map[table.Workload]bool

func (c concerned) passes(w table.Workload) bool { return c == nil || c[w] }

// concerned returns the baselines that a routing key has a rule for, or had one as
// far as the log is kept: the members that it ever named, and the baselines that
// each ever stood for. Without a key: all there are.
func (r *Receipts) concerned(ctx context.Context, routingKey string) (concerned, error) {
	if routingKey == "" {
		return nil, nil
	}
	tip, err := r.versions.Log.Tip(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.versions.History.Reached(ctx, tip); err != nil {
		return nil, err
	}
	out := lists.Set(r.versions.History.Concerned(routingKey))
	return out, nil
}

// Sidecars knows the DevMesh sidecars that are connected to this route server.
type Sidecars interface {
	// Sidecars returns one entry for each sidecar, sorted by namespace and pod.
	Sidecars() []Sidecar
}

// Acknowledging can be implemented by Sidecars that notify of acknowledgements. Without it a Wait
// polls several times a second.
type Acknowledging interface {
	// Acknowledged returns a channel that is closed at the next change of the result of Sidecars: a
	// sidecar has connected, disconnected, acknowledged or rejected something.
	Acknowledged() <-chan struct{}
}

// Sidecar is what one connected sidecar has acknowledged.
type Sidecar struct {
	// Namespace and Pod name its pod; Baseline is the workload of that pod.
	Namespace, Pod string
	Baseline       table.Workload
	// Acknowledged is the version of its workload's rules that it acknowledged
	// last, Due the one it is to have; "" for none.
	Acknowledged, Due string
	// Rejected is the message of the last update that the sidecar rejected, or "".
	Rejected string
	// Reached is the newest position such that the sidecar has acknowledged the rules for its
	// workload at that position; zero if unknown.
	Reached event.Pos
}

// Peers are the other route servers of the same log.
type Peers interface {
	// Sidecars queries each of them for the sidecars connected to it, and returns the results and
	// the addresses of those that did not respond in time.
	Sidecars(ctx context.Context, filter *routingv1.Filter) (sidecars []*routingv1.Sidecar, silent []string)
}

// Receipts answers Sidecars and Wait. Make one with New.
type Receipts struct {
	versions *versions.Versions
	// connected are the sidecars connected here; nil without any. The other route servers
	// are asked directly, or, by many at once, through others.
	connected Sidecars
	peers     Peers
	others    others
	// name is what this route server is called.
	name string
	here shared[[]Sidecar]
	// rested is the earliest time for the next listing of local sidecars. Only the goroutine that
	// runs the current round reads and writes it.
	rested time.Time
}

// New returns the receipts of the sidecars that are connected to this route server, of
// this name, and to its peers; either may be nil.
func New(v *versions.Versions, connected Sidecars, peers Peers, name string) *Receipts {
	return &Receipts{
		versions: v, connected: connected, peers: peers, name: name,
		others: others{peers: peers, self: name, asked: map[table.Workload]*asked{}},
	}
}
