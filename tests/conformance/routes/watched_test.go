package routes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/tools/wait"
)

// identity is the pair that names a rule: baseline and routing key.
type identity struct{ kind, namespace, name, key string }

// watched is a model of the rules, kept by watching as the published Go client
// does it: a snapshot is buffered until SYNCED and then takes the place of what
// was known; a stream that ends is opened again, at once when it was synced,
// after a wait when it was not. It is stricter than that client: everything that
// would crash or mislead any published edition is a violation.
type watched struct {
	client  pb.RoutesClient
	request *pb.WorkloadRoutingRulesRequest

	mu         sync.Mutex
	rules      map[identity]*pb.WorkloadRoutingRule
	bySandbox  map[string]map[identity]bool // kept as snapshot-era clients keep it
	synced     int                          // snapshots that were applied
	smallest   int                          // fewest rules of any snapshot
	opened     int                          // streams that were opened
	violations []string
}

func newWatched(conn grpc.ClientConnInterface, request *pb.WorkloadRoutingRulesRequest) *watched {
	return &watched{
		client: pb.NewRoutesClient(conn), request: request,
		rules: map[identity]*pb.WorkloadRoutingRule{}, bySandbox: map[string]map[identity]bool{}, smallest: 1 << 30,
	}
}

// run watches until ctx ends.
func (w *watched) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !w.watch(ctx) {
			_ = wait.For(ctx, 50*time.Millisecond) // the published client waits a second and more
		}
	}
}

// watch reads one stream to its end and reports whether it was synced.
func (w *watched) watch(ctx context.Context) bool {
	w.mu.Lock()
	w.opened++
	w.mu.Unlock()
	stream, err := w.client.WatchWorkloadRoutingRules(ctx, w.request)
	if err != nil {
		return false
	}
	snapshot, synced := map[identity]*pb.WorkloadRoutingRule{}, false
	for {
		op, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				w.violate("the server closed the stream: clients would open it again without a pause")
			}
			return synced
		}
		switch {
		case !synced && op.GetOp() == pb.WatchOp_SYNCED:
			synced = true
			w.replaceAll(snapshot)
		case op.GetOp() == pb.WatchOp_SYNCED:
			w.violate("a second SYNCED")
		case !w.complete(op):
		case !synced && op.GetOp() != pb.WatchOp_ADD:
			w.violate("before SYNCED: %v", op)
		case !synced:
			id := identityOf(op.GetRoute())
			if snapshot[id] != nil {
				w.violate("twice in one snapshot: %v", op)
			}
			snapshot[id] = op.GetRoute()
		default:
			w.apply(op)
		}
	}
}

// complete reports whether an op has all that clients read without looking.
func (w *watched) complete(op *pb.WorkloadRoutingRuleOp) bool {
	r := op.GetRoute()
	switch {
	case r == nil, r.GetBaseline() == nil, r.GetDestinationSandbox() == nil:
		w.violate("without a route, baseline or destination sandbox: %v", op)
	case r.GetRoutingKey() == "":
		w.violate("an empty routing key: %v", op)
	case r.GetBaseline().GetKind() == "", r.GetBaseline().GetNamespace() == "", r.GetBaseline().GetName() == "", r.GetDestinationSandbox().GetName() == "":
		w.violate("an incomplete route: %v", op)
	case !addressable(r):
		w.violate("a mapping that clients cannot use: %v", op)
	case !w.wanted(r):
		w.violate("a route that does not match the filter: %v", op)
	default:
		return true
	}
	return false
}

// addressable reports whether clients can use the mappings: they keep a port of a
// workload in 32 bits with a sign, and write host and port with a colon in
// between, so a host is not an IPv6 address.
func addressable(r *pb.WorkloadRoutingRule) bool {
	for _, m := range r.GetMappings() {
		if p := m.GetWorkloadPort(); p == 0 || p > math.MaxInt32 {
			return false
		}
		for _, d := range m.GetDestinations() {
			if d.GetHost() == "" || strings.Contains(d.GetHost(), ":") || d.GetPort() == 0 || d.GetPort() > math.MaxUint16 {
				return false
			}
		}
	}
	return true
}

func (w *watched) wanted(r *pb.WorkloadRoutingRule) bool {
	q, b := w.request.GetBaselineWorkload(), r.GetBaseline()
	for _, pair := range [][2]string{
		{w.request.GetRoutingKey(), r.GetRoutingKey()},
		{w.request.GetDestinationSandbox().GetName(), r.GetDestinationSandbox().GetName()},
		{q.GetKind(), b.GetKind()}, {q.GetNamespace(), b.GetNamespace()}, {q.GetName(), b.GetName()},
	} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return true
}

func (w *watched) replaceAll(snapshot map[identity]*pb.WorkloadRoutingRule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = snapshot
	w.bySandbox = map[string]map[identity]bool{}
	for id, r := range snapshot {
		w.index(id, r)
	}
	w.synced++
	w.smallest = min(w.smallest, len(snapshot))
}

func (w *watched) index(id identity, r *pb.WorkloadRoutingRule) {
	sandbox := r.GetDestinationSandbox().GetName()
	if w.bySandbox[sandbox] == nil {
		w.bySandbox[sandbox] = map[identity]bool{}
	}
	w.bySandbox[sandbox][id] = true
}

// apply takes in a delta as snapshot-era clients do: their index by sandbox is
// cleaned on REMOVE only, and only under the sandbox that REMOVE names.
func (w *watched) apply(op *pb.WorkloadRoutingRuleOp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := op.GetRoute()
	id := identityOf(r)
	was := w.rules[id]
	switch op.GetOp() {
	case pb.WatchOp_ADD:
		if was != nil {
			w.note("ADD of a rule that is there: %v", op)
		}
	case pb.WatchOp_REPLACE:
		if was == nil || was.GetDestinationSandbox().GetName() != r.GetDestinationSandbox().GetName() {
			w.note("REPLACE of %v with another sandbox: %v", was, op)
		}
	case pb.WatchOp_REMOVE:
		if was == nil || was.GetDestinationSandbox().GetName() != r.GetDestinationSandbox().GetName() {
			w.note("REMOVE of %v names another sandbox: %v", was, op)
		}
		delete(w.rules, id)
		delete(w.bySandbox[r.GetDestinationSandbox().GetName()], id)
		return
	default:
		w.note("an unknown op: %v", op)
	}
	w.rules[id] = r
	w.index(id, r)
}

func identityOf(r *pb.WorkloadRoutingRule) identity {
	b := r.GetBaseline()
	return identity{b.GetKind(), b.GetNamespace(), b.GetName(), r.GetRoutingKey()}
}

func (w *watched) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, args...)
}

// note is violate for those that hold the lock.
func (w *watched) note(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// state is a copy of what a watched knows.
type state struct {
	rules            map[identity]*pb.WorkloadRoutingRule
	routesTo         map[identity][]string // every sandbox that the index has for a rule
	synced, opened   int
	smallestSnapshot int
	violations       []string
}

func (w *watched) state() state {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := state{
		rules: maps.Clone(w.rules), routesTo: map[identity][]string{}, synced: w.synced, opened: w.opened,
		smallestSnapshot: w.smallest, violations: append([]string(nil), w.violations...),
	}
	for sandbox, ids := range w.bySandbox {
		for id := range ids {
			s.routesTo[id] = append(s.routesTo[id], sandbox)
		}
	}
	return s
}
