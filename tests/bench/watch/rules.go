package main

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	pb "switchyard.dev/protos/gen/routes"
)

// Sandboxes come and go: change 2n declares the key of sandbox n, and change
// 2n+1 withdraws it again when stay others have come. A change is one rule that
// appears or disappears, so it can be told apart at the watcher.
const stay = 500

// changesInOrder gives the numbers of the changes as they are made.
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

// factOf gives the fact of a change.
func factOf(change int) event.Fact {
	key := changing + strconv.Itoa(change/2)
	var data proto.Message = &factv1.RoutingWithdrawn{RoutingKey: key}
	if change%2 == 0 {
		data = declared(key, change/2)
	}
	return event.Fact{Key: event.RoutingKey(key), Time: time.Now(), Data: data}
}

// changeOf gives the number of the change that an op tells of.
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

// workloads is how many forked workloads there are.
const workloads = 50

// present gives the facts that are there before anything is measured: rules that
// do not change, on fifty baselines.
func present(rules int) []event.Fact {
	var out []event.Fact
	for i := range workloads {
		name := fmt.Sprintf("service-%d", i)
		out = append(out, event.Fact{Key: event.Workload("ForkedWorkload", "shop", name), Time: time.Now(), Data: &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: name, Uid: fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)},
			Created:  timestamppb.New(time.Unix(int64(i), 0)),
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "shop", Name: name},
			Services: []*factv1.ServicePair{{
				From: name, To: fmt.Sprintf("feature-%s-%08x", name, i), ClusterIp: fmt.Sprintf("10.0.0.%d", i),
				Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}},
			}},
			Ready: true,
		}})
	}
	for i := range rules {
		key := fmt.Sprintf("k%012d", i)
		out = append(out, event.Fact{Key: event.RoutingKey(key), Time: time.Now(), Data: declared(key, i)})
	}
	return append(out, event.Fact{Key: event.Log, Time: time.Now(), Data: &factv1.Complete{Reason: "first"}})
}

func declared(key string, i int) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{{
		Kind: "ForkedWorkload", Namespace: "shop", Name: fmt.Sprintf("service-%d", i%workloads), Sandbox: fmt.Sprintf("feature-%d", i),
	}}}
}

// digestOf gives a number for a rule; that of a set of rules is all of them by
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
