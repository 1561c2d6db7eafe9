package switchyard_test

import (
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/switchyard/command/exit"
)

// A virtual workload keeps its requests at the baseline, where a fork had them before.
func TestKeptRequestsAreShown(t *testing.T) {
	naming := declared("alice", "sb-alice", "watch-alice", "kubectl-client-side-apply")
	said, _ := naming.Data.(*factv1.RoutingDeclared)
	said.Members[0].Kind = "VirtualWorkload"
	keeping := observed("watch-alice", "", true)
	keeping.Cause.Kind = "VirtualWorkload"
	keeping.Key = event.Workload("VirtualWorkload", "shop", "watch-alice")
	seen, _ := keeping.Data.(*factv1.WorkloadObserved)
	seen.Workload.Kind, seen.Services[0].To = "VirtualWorkload", ""
	path := save(t, "log.jsonl", sealed(t, append(story()[:3], keeping, naming)))
	for name, args := range map[string][]string{
		"kept-table":   {"table", "--archive", path},
		"kept-explain": {"explain", "customer.shop:8081", "--key", "alice", "--archive", path},
		"kept-diff":    {"diff", "3", "--archive", path},
		"kept-history": {"history", "--workload", "deployment/shop/customer", "--archive", path},
	} {
		t.Run(name, func(t *testing.T) {
			got := client().run(t.Context(), args...)
			if got.code != 0 || got.err != "" {
				t.Fatalf("exit code %d\n%s%s", got.code, got.out, got.err)
			}
			golden.Compare(t, "testdata/"+name+".txt", got.out)
		})
	}
}

// A Service that selects pods of two forked workloads has an answer for each.
func TestExplainShowsEachWorkloadBehindAService(t *testing.T) {
	naming := declared("alice", "sb-alice", "fork-alice", "kubectl-client-side-apply")
	said, _ := naming.Data.(*factv1.RoutingDeclared)
	said.Members = append(said.Members, &factv1.Member{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork-canary", Sandbox: "sb-alice"})
	for name, ready := range map[string]bool{"others-routed": true, "others-not-ready": false} {
		t.Run(name, func(t *testing.T) {
			canary := observed("fork-canary", "10.96.0.13", ready)
			seen, _ := canary.Data.(*factv1.WorkloadObserved)
			seen.Baseline.Name, seen.Baseline.Uid = "customer-canary", "uid-canary"
			path := save(t, "log.jsonl", sealed(t, append(story()[:3], canary, naming)))
			got := client().run(t.Context(), "explain", "customer.shop:8081", "--key", "alice", "--archive", path)
			if want := map[bool]exit.Code{true: exit.OK, false: exit.No}[ready]; got.code != want {
				t.Errorf("exit code %d, want %d\n%s%s", got.code, want, got.out, got.err)
			}
			golden.Compare(t, "testdata/"+name+".txt", got.out)
		})
	}
}

// A sidecar reads the key of a list that applications drop.
func TestExplainNamesHeadersThatApplicationsDoNotForward(t *testing.T) {
	p := client()
	path := save(t, "log.jsonl", stored(t))
	for list, want := range map[string]string{
		"broken,sd-routing-key=alice":   "Applications may not forward this routing key: the entry \"broken\" of the baggage does not follow",
		"user=ada,sd-routing-key=alice": "",
	} {
		got := p.run(t.Context(), "explain", "customer.shop:8081", "-H", "baggage: "+list, "--at", "7", "--archive", path)
		if has := strings.Contains(got.out, "may not forward"); got.code != exit.OK || has != (want != "") || !strings.Contains(got.out, want) {
			t.Errorf("%s: exit code %d\n%s%s", list, got.code, got.out, got.err)
		}
	}
}

// What each command shows of the story, to people and to scripts.
func TestOutputs(t *testing.T) {
	path := save(t, "log.jsonl", stored(t))
	for name, c := range map[string]struct {
		args string
		code exit.Code
	}{
		"table":                  {"table --at TIME --archive LOG", 0},
		"table-empty":            {"table --archive LOG", 0},
		"table-filtered":         {"table --at 7 --key alice --archive LOG", 0},
		"explain-routed":         {"explain deployment/shop/customer --key alice --at 7 --archive LOG", 0},
		"explain-destination":    {"explain customer.shop:8081 --key alice --at 7 --archive LOG", 0},
		"explain-withdrawn":      {"explain deployment/shop/customer --key alice --archive LOG", 1},
		"explain-not-observed":   {"explain deployment/shop/customer --key carol\x1b[31m --archive LOG", 1},
		"explain-never-declared": {"explain deployment/shop/customer --key dave --archive LOG", 1},
		"diff":                   {"diff 3 --archive LOG", 0},
		"diff-two":               {"diff 4 7 --archive LOG", 0},
		"diff-none":              {"diff now --archive LOG --exit-code", 0},
		"history-key":            {"history --key bob --archive LOG", 0},
		"history-workload":       {"history --workload deployment/shop/customer --archive LOG", 0},
		"history-none":           {"history --key dave --archive LOG", 1},
		"history-strange":        {"history --key carol\x1b[31m --archive LOG", 0},
		"watch":                  {"watch --once --archive LOG", 0},
		"watch-behind":           {"watch --once --behind 3 --archive LOG", 0},
		"kept":                   {"log kept --archive LOG", 0},
		"sidecars":               {"sidecars --archive LOG", 0},
		"wait":                   {"wait --key alice --archive LOG", 0},
		"wait-any":               {"wait --archive LOG", 0},
		"replay":                 {"replay LOG --to 2026-11-20T14:12:00Z", 0},
		"audit":                  {"audit verify LOG", 0},
		"bisect":                 {"bisect LOG --good 7 -- true", 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, output := range []string{"table", "json", "yaml"} {
				var args []string
				for _, arg := range strings.Fields(c.args) {
					switch arg {
					case "LOG":
						arg = path
					case "TIME":
						arg = "2026-11-20T15:12:01+01:00"
					}
					args = append(args, arg)
				}
				args = append(append([]string{}, args[0], "-o", output), args[1:]...)
				got := client().run(t.Context(), args...)
				if got.code != c.code {
					t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got.code, c.code, got.out, got.err)
				}
				if got.code == exit.OK && got.err != "" {
					t.Errorf("told on standard error: %s", got.err)
				}
				golden.Compare(t, "testdata/"+name+map[string]string{"table": ".txt", "json": ".json", "yaml": ".yaml"}[output], got.out)
			}
		})
	}
}
