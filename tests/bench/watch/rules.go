package main

import (
	"hash/fnv"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/event"
	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/tests/bench/frame"
)

// shop is what there are rules for.
const shop = frame.Shop(frame.Workloads)

// Sandboxes come and go: change 2n declares the key of sandbox n, and change 2n+1 withdraws it
// again when stay others have come. A change is one rule that appears or disappears, so the
// watcher can identify it.
const stay = 500

// changesInOrder returns the numbers of the changes as they are made.
func changesInOrder(n int) []int {
	var out []int
	for sandbox := 0; len(out) < n; sandbox++ {
		out = append(out, 2*sandbox)
		if sandbox >= stay && len(out) < n {
			out = append(out, 2*(sandbox-stay)+1)
		}
	}
	return out
}

const changing = "change-"

// factOf returns the fact of a change.
func factOf(change int) event.Fact {
	key := changing + strconv.Itoa(change/2)
	if change%2 == 0 {
		return shop.Declared(key, change/2)
	}
	return frame.Withdrawn(key)
}

// changeOf returns the number of the change of an op.
func changeOf(op *pb.WorkloadRoutingRuleOp) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(op.GetRoute().GetRoutingKey(), changing))
	if err != nil {
		return 0, false
	}
	if op.GetOp() == pb.WatchOp_REMOVE {
		return 2*n + 1, true
	}
	return 2 * n, op.GetOp() == pb.WatchOp_ADD
}

// digestOf returns a number for a rule; that of a set of rules is all of them by
// exclusive or.
func digestOf(r *pb.WorkloadRoutingRule) uint64 {
	h := fnv.New64a()
	part := func(s string) {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	for _, s := range []string{
		r.GetRoutingKey(), r.GetBaseline().GetKind(), r.GetBaseline().GetNamespace(), r.GetBaseline().GetName(), r.GetDestinationSandbox().GetName(),
	} {
		part(s)
	}
	for _, m := range r.GetMappings() {
		for _, d := range m.GetDestinations() {
			part(d.GetHost())
			part(strconv.Itoa(int(m.GetWorkloadPort())) + strconv.Itoa(int(d.GetPort())))
		}
	}
	return h.Sum64()
}
