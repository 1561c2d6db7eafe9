package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	pb "switchyard.dev/protos/gen/routes"
)

// What 50,000 rules look like to each client. Only one is at a loss, and the
// reason is its own: a client of gRPC takes messages of 4 MiB unless it is told
// otherwise, and GetWorkloadRoutingRules answers with one. It can narrow what it
// asks for; a watch and REST have no such bound.
func TestFiftyThousandRules(t *testing.T) {
	t.Parallel()
	const forks, keys = 50, 1000
	w := begin(t)
	var members []*factv1.Member
	for i := range forks {
		fork := fmt.Sprintf("feature-service-%d", i)
		w.State(observe("shop", fork, "Deployment", fmt.Sprintf("service-%d", i), 8080))
		members = append(members, member("shop", fork, "feature-4711"))
	}
	for i := range keys {
		w.State(declare(fmt.Sprintf("k%012d", i), members...))
	}
	w.State(&factv1.Complete{})
	m, _ := serve(t, w.Log, anyPort)
	w.Settle(m)
	conn := dial(t, m.GRPCAddress())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	_, err := pb.NewRoutesClient(conn).GetWorkloadRoutingRules(ctx, nil)
	if said := status.Convert(err); said.Code() != codes.ResourceExhausted || !strings.Contains(said.Message(), "larger than max") {
		t.Errorf("with the default limit: %v", err)
	}
	whole, err := pb.NewRoutesClient(conn).GetWorkloadRoutingRules(ctx, nil, grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil || len(whole.GetRoutingRules()) != forks*keys {
		t.Errorf("with a higher limit: %d rules, %v", len(whole.GetRoutingRules()), err)
	}
	t.Logf("%d rules take %d bytes; %d fit into 4 MiB", forks*keys, proto.Size(whole), forks*keys*(4<<20)/max(1, proto.Size(whole)))
	if got := rulesOf(t, conn, baseline("Deployment", "shop", "service-7")); len(got) != keys {
		t.Errorf("of one baseline: %d rules", len(got))
	}
	if got := snapshotOf(t, conn, nil); len(got) != forks*keys {
		t.Errorf("a watch begins with %d rules", len(got))
	}
	_, body := get(t, "http://"+m.RESTAddress()+"/api/v1/workloads/routing-rules")
	var a struct{ RoutingRules []json.RawMessage }
	if err := json.Unmarshal(body, &a); err != nil || len(a.RoutingRules) != forks*keys {
		t.Errorf("REST: %d rules, %v", len(a.RoutingRules), err)
	}
}
