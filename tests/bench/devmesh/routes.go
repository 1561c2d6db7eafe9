package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/xdstest"
)

const (
	// appPort is where the application of every pod listens, and forkPort where
	// the Services of the sandboxes do.
	appPort  = 8080
	forkPort = 80
	// xdsPort is the route server's, on all addresses of the node.
	xdsPort = "7779"
	// connections is the number of connections of a load. It is also the number of sandboxes: each
	// connection sends the key of one of them.
	connections = 16
)

// workload is the baseline with so many sandboxes.
func workload(sandboxes int) table.Workload {
	return table.Workload{Kind: "Deployment", Namespace: "shop", Name: fmt.Sprintf("customer-%d", sandboxes)}
}

// key is the routing key of the i-th of so many sandboxes: 13 characters, as
// those of Signadot.
func key(sandboxes, i int) string { return fmt.Sprintf("k%05d%07d", sandboxes, i) }

// service is the cluster address of a sandbox's Service.
func service(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)}), forkPort)
}

// used returns the sandboxes, of so many, that requests are for: spread evenly.
func used(sandboxes int) []int {
	var all []int
	for c := range min(sandboxes, connections) {
		all = append(all, sandboxes*(2*c+1)/(2*min(sandboxes, connections)))
	}
	return all
}

// tableOf returns the routing table in which workload(n) has n sandboxes, for each
// of the numbers.
func tableOf(numbers ...int) table.Table {
	var facts []event.Recorded
	add := func(data event.Fact) {
		facts = append(facts, event.Recorded{Pos: event.Pos{Epoch: "bench", Seq: uint64(len(facts) + 1)}, Fact: data})
	}
	for _, n := range numbers {
		for i := range n {
			fork := xdstest.Fork{
				Baseline: workload(n), Key: key(n, i), Sandbox: fmt.Sprintf("feature-%d-of-%d", i, n),
				Port: appPort, Destination: service(i),
			}
			observed, declared := fork.Facts()
			add(observed)
			add(declared)
		}
	}
	add(event.Fact{Data: &factv1.Complete{Reason: "bench"}})
	return table.Table{}.Apply(facts...)
}

// still is a view of a table that does not change.
type still struct{ table table.Table }

// Current is serve.View.
func (s still) Current() (table.Table, <-chan struct{}) { return s.table, nil }

// identify takes tokens that name the workload.
func identify(_ context.Context, token string) (serve.Peer, error) {
	name, ok := strings.CutPrefix(token, "pod of ")
	if !ok {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	w := workload(0)
	w.Name = name
	return serve.Peer{Workload: w, Namespace: w.Namespace, Pod: name + "-0", UID: name}, nil
}
