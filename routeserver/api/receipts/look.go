package receipts

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/routeserver/table"
)

// mostFilters is the maximum number of baselines that are queried from the other route servers one
// by one; for a key with more, all sidecars are queried.
const mostFilters = 8

// look returns the sidecars that have acknowledged a position: of those connected here, or, with
// everywhere, to any route server. A local look never reports that all have, unless there are no
// other route servers.
func (r *Receipts) look(ctx context.Context, w wanted, everywhere bool) (*routingv1.WaitResponse, error) {
	t, _ := r.versions.Tables.Current()
	if t.Pos().Epoch != w.pos.Epoch {
		return nil, failure.Gone(failure.ReasonOtherEpoch, "the routing log began again while this was waited for: wait again", event.Pos{})
	}
	out := &routingv1.WaitResponse{Version: r.versions.Version(t)}
	var all []*routingv1.Sidecar
	if r.peers != nil && everywhere {
		all, out.Silent = r.others.sidecars(ctx, r.versions.Stopping, w.who)
	}
	all = r.withOwn(ctx, all, w.who.passes)
	out.Sidecars = int32(len(all))
	there := make(map[string]bool, len(all))
	for _, c := range all {
		there[c.GetNamespace()+"/"+c.GetPod()] = true
		if at := c.GetReached(); at.GetEpoch() != w.pos.Epoch || at.GetSequence() < w.pos.Seq {
			out.Lagging = append(out.Lagging, c)
		}
	}
	out.Missing = append(out.Missing, lists.Filter(w.pods, func(pod string) bool { return !there[pod] })...)
	whole := everywhere || r.peers == nil
	if whole {
		out.Unconnected = w.unconnected(t, all)
	}
	out.Converged = whole && len(out.GetLagging()) == 0 && len(out.GetSilent()) == 0 && len(out.GetMissing()) == 0 &&
		(w.connectedOnly || len(out.GetUnconnected()) == 0)
	return out, nil
}

// unconnected returns, sorted, the baselines that have none of these sidecars and where requests
// with the key need one to reach a sandbox. A consumer of messages has no Service, and the
// requests of a virtual workload stay with the baseline.
func (w wanted) unconnected(t table.Table, sidecars []*routingv1.Sidecar) []*routingv1.Workload {
	connected := map[table.Workload]bool{}
	for _, c := range sidecars {
		connected[table.WorkloadOf(c.GetBaseline())] = true
	}
	var out []*routingv1.Workload
	for _, baseline := range slices.SortedFunc(maps.Keys(w.who), table.Workload.Compare) {
		rule, has := t.Lookup(baseline, w.key)
		if has && !rule.Kept() && len(rule.Mappings) > 0 && !connected[baseline] {
			out = append(out, messages.Workload(baseline))
		}
	}
	return out
}

// news returns a channel that is closed at the next acknowledgement of a sidecar connected here;
// nil if Sidecars does not implement Acknowledging.
func (r *Receipts) news() <-chan struct{} {
	if a, ok := r.connected.(Acknowledging); ok {
		return a.Acknowledged()
	}
	return nil
}

// own returns the sidecars that are connected here, as of the call or a moment later. Listing
// thousands of streams takes a while, and each of their acknowledgements can trigger calls:
// concurrent callers share one result, and listing uses at most a quarter of one processor.
func (r *Receipts) own(ctx context.Context) []Sidecar {
	all, ok := r.here.get(ctx, func() []Sidecar {
		time.Sleep(time.Until(r.rested))
		began := time.Now()
		list := r.connected.Sidecars()
		r.rested = time.Now().Add(3 * time.Since(began))
		return list
	})
	if !ok {
		return r.connected.Sidecars() // the last result, when the time of the caller is up
	}
	return all
}

// others asks the other route servers for the sidecars of baselines: however
// many waits there are, for each baseline there is one question at a time.
type others struct {
	peers Peers
	self  string

	mu    sync.Mutex
	asked map[table.Workload]*asked
}

// asked is a question about one baseline, or about all with the zero Workload.
type asked struct {
	sync  shared[answer]
	users int
}

type answer struct {
	sidecars []*routingv1.Sidecar
	silent   []string
}

// sidecars returns the sidecars of these baselines (nil: all) that are connected to other route
// servers, and the route servers that did not respond. It returns when ctx ends; the query itself
// ends with the server.
func (o *others) sidecars(ctx, serving context.Context, who concerned) (all []*routingv1.Sidecar, silent []string) {
	about := []table.Workload{{}}
	if who != nil && len(who) <= mostFilters {
		about = about[:0]
		about = slices.AppendSeq(about, maps.Keys(who))
	}
	answers := make(chan answer, len(about))
	for _, w := range about {
		go func() { answers <- o.ask(ctx, serving, w) }()
	}
	for range about {
		a := <-answers
		silent = append(silent, a.silent...)
		all = append(all, lists.Filter(a.sidecars, func(c *routingv1.Sidecar) bool {
			return c.GetRouteServer() != o.self && who.passes(table.WorkloadOf(c.GetBaseline()))
		})...)
	}
	return all, lists.Unique(silent)
}

// ask queries the sidecars of one baseline. A missing result names no silent route server, but must
// not pass for a complete one.
func (o *others) ask(ctx, serving context.Context, w table.Workload) answer {
	o.mu.Lock()
	q := o.asked[w]
	if q == nil {
		q = &asked{}
		o.asked[w] = q
	}
	q.users++
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if q.users--; q.users == 0 {
			delete(o.asked, w)
		}
	}()
	filter := &routingv1.Filter{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
	got, ok := q.sync.get(ctx, func() (a answer) {
		a.sidecars, a.silent = o.peers.Sidecars(serving, filter)
		return a
	})
	if !ok {
		got.silent = []string{"the other route servers"}
	}
	return got
}

// shared computes a result for several concurrent callers. The computation of a caller's result
// always starts after its call; callers that arrive during a computation share the next one.
type shared[T any] struct {
	mu   sync.Mutex
	next *round[T]  // not started; nil without waiting callers
	turn sync.Mutex // held while it is found out
}

type round[T any] struct {
	done  chan struct{}
	value T
}

// get returns what find finds out, or nothing when ctx ends before.
func (s *shared[T]) get(ctx context.Context, find func() T) (value T, ok bool) {
	s.mu.Lock()
	mine := s.next
	if mine == nil {
		mine = &round[T]{done: make(chan struct{})}
		s.next = mine
		go s.find(mine, find)
	}
	s.mu.Unlock()
	select {
	case <-mine.done:
		return mine.value, true
	case <-ctx.Done():
		return value, false
	}
}

// find finds out for one round, when it is its turn.
func (s *shared[T]) find(mine *round[T], find func() T) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	s.next = nil // later callers join the next round
	s.mu.Unlock()
	mine.value = find()
	close(mine.done)
}
