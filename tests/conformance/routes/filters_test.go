package routes

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/tests/conformance/served"
)

// The published server is said to mishandle a name that two namespaces have.
// Here every name is in two namespaces and of two kinds, in random clusters, and
// each of the 32 combinations of filters must give, over gRPC, in a watch's
// snapshot and over both paths of REST, what is worked out from the facts with
// nothing but loops.
func TestAll32CombinationsOfFiltersInRandomClusters(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.State(&factv1.Complete{})
	m, _ := serve(t, w.Log, anyPort)
	conn := dial(t, m.GRPCAddress())
	rng := rand.New(rand.NewPCG(32, 1))
	matched := 0
	for cluster := range 8 {
		rules := randomRules(w, rng)
		w.Settle(m)
		for combination := range 32 {
			f := randomFilters(rng, rules, combination)
			want := map[identity]*pb.WorkloadRoutingRule{}
			for _, r := range rules {
				if f.matches(r) {
					want[identityOf(r)] = r
				}
			}
			matched += len(want)
			for how, got := range map[string]map[identity]*pb.WorkloadRoutingRule{
				"gRPC":           rulesOf(t, conn, f.request()),
				"a watch":        snapshotOf(t, conn, f.request()),
				"REST":           overREST(t, m.RESTAddress(), "/api/v1/workloads/routing-rules", f),
				"the older path": overREST(t, m.RESTAddress(), "/api/v1/workloads/routes", f),
			} {
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Fatalf("cluster %d, %s with %q (-want +got):\n%s", cluster, how, f, diff)
				}
			}
		}
	}
	if matched < 8*32 {
		t.Errorf("only %d rules matched in all: the filters were too narrow to tell anything", matched)
	}
}

// randomRules makes a random cluster the present one and gives its rules. Each
// of eight forks has a baseline of its own: two names, in two namespaces, of two
// kinds.
func randomRules(w *served.Log, rng *rand.Rand) []*pb.WorkloadRoutingRule {
	some := func() bool { return rng.IntN(4) > 0 }
	members := map[string][]*factv1.Member{}
	var rules []*pb.WorkloadRoutingRule
	for i := range 8 {
		namespace, kind, name := []string{"shop", "other"}[i&1], []string{"Deployment", "ArgoRollout"}[i>>1&1], []string{"customer", "driver"}[i>>2&1]
		fork := fmt.Sprintf("w%d", i)
		observed := some()
		if observed {
			w.State(observe(namespace, fork, kind, name, 8080))
		} else {
			w.State(&factv1.WorkloadWithdrawn{Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: fork}})
		}
		for _, key := range []string{"k1", "k2", "group"} {
			if !some() {
				continue
			}
			to := fmt.Sprintf("sb%d", rng.IntN(3))
			members[key] = append(members[key], member(namespace, fork, to))
			if observed {
				rules = append(rules, &pb.WorkloadRoutingRule{
					RoutingKey: key, Baseline: &pb.BaselineWorkload{Kind: kind, Namespace: namespace, Name: name},
					DestinationSandbox: &pb.DestinationSandbox{Name: to},
					Mappings: []*pb.WorkloadPortMapping{{WorkloadPort: 8080, Destinations: []*pb.Location{
						{Host: fork + "-0." + namespace + ".svc", Port: 80},
					}}},
				})
			}
		}
	}
	for _, key := range []string{"k1", "k2", "group"} {
		w.State(declare(key, members[key]...))
	}
	return rules
}

// randomFilters sets the filters of a combination, a bit for each: mostly to
// what some rule has, now and then to what none has.
func randomFilters(rng *rand.Rand, rules []*pb.WorkloadRoutingRule, combination int) (f filters) {
	r := rules[rng.IntN(len(rules))]
	b := r.GetBaseline()
	for i, value := range [5]string{b.GetKind(), b.GetNamespace(), b.GetName(), r.GetRoutingKey(), r.GetDestinationSandbox().GetName()} {
		if combination>>i&1 == 0 {
			continue
		}
		if f[i] = value; rng.IntN(8) == 0 {
			f[i] = "nobody"
		}
	}
	return f
}

// snapshotOf returns the rules that a watch begins with.
func snapshotOf(t *testing.T, conn grpc.ClientConnInterface, request *pb.WorkloadRoutingRulesRequest) map[identity]*pb.WorkloadRoutingRule {
	t.Helper()
	c := newWatched(conn, request)
	stop := start(t, c)
	eventually(t, "SYNCED", func() bool { return c.state().synced == 1 })
	stop()
	got := c.state()
	for _, v := range got.violations {
		t.Error(v)
	}
	return got.rules
}
