package routing

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

func session() *command.Session {
	s := command.New(command.Config{Name: "switchyard", In: strings.NewReader("kind: SignadotSandbox"), Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Getenv: func(string) string { return "" }, Zone: time.UTC})
	s.Cluster.Namespace = "signadot"
	return s
}

func TestArgumentsOfADryRun(t *testing.T) {
	for name, tt := range map[string]struct {
		file   string
		remove bool
		args   []string
		want   dryrun.Question
	}{
		"a file":            {"-", false, nil, dryrun.Question{Text: []byte("kind: SignadotSandbox"), Operator: "signadot"}},
		"objects to delete": {"-", true, nil, dryrun.Question{Text: []byte("kind: SignadotSandbox"), Delete: true, Operator: "signadot"}},
		"an object to delete": {"", true, []string{"forkedworkload", "shop/fork-alice"},
			dryrun.Question{Kind: "forkedworkload", Namespace: "shop", Name: "fork-alice", Delete: true, Operator: "signadot"}},
	} {
		got, err := question(session(), tt.file, tt.remove, tt.args)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	for name, tt := range map[string]struct {
		file   string
		remove bool
		args   []string
	}{
		"nothing": {}, "a name without --delete": {args: []string{"sandbox", "x"}},
		"a file and a name": {"-", true, []string{"sandbox", "x"}}, "a file that is not there": {file: "none"},
	} {
		if _, err := question(session(), tt.file, tt.remove, tt.args); exit.Of(err) != exit.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPlanIsShown(t *testing.T) {
	workload := &routingv1.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}
	added := &routingv1.DryRunResponse{Changes: []*routingv1.Change{{New: &routingv1.Rule{RoutingKey: "alice", Baseline: workload, Sandbox: "sb-alice"}, RoutingKey: "alice", Baseline: workload, WorkloadPorts: []uint32{8080}}}}
	for name, tt := range map[string]struct {
		plan   planned
		answer *routingv1.DryRunResponse
		want   []string
		not    string
	}{
		"no change": {planned{}, &routingv1.DryRunResponse{}, []string{"no object would be written\nthe operator would report no problem\nno route would change\n"}, "refuse"},
		"objects and findings": {planned{Objects: []string{"delete SignadotSandbox sb-alice", "delete ForkedWorkload shop/fork-alice"},
			Findings: []string{"SignadotSandbox sb-alice: Ready is False (Odd): \x1b[31mred\nline"}}, &routingv1.DryRunResponse{}, []string{
			"these objects would be written:\n  delete SignadotSandbox sb-alice\n  delete ForkedWorkload shop/fork-alice\n",
			"the operator would report:\n  SignadotSandbox sb-alice: Ready is False (Odd): \\u001b[31mred\\nline",
		}, "no problem"},
		"a rule that would be new": {planned{}, added, []string{"these routes would change:\n  Deployment shop/customer, key alice, port 8080\n    - the baseline\n    + sandbox sb-alice", "what would be new is shown as it begins"}, ""},
		"a refusal": {planned{Refusals: []string{"SignadotSandbox sb: spec.id: Too long"}, Unknown: []string{"much"}}, &routingv1.DryRunResponse{}, []string{
			"the API server would refuse:\n  SignadotSandbox sb: spec.id: Too long\nno object would be written\nno route", "not known:\n  much\n",
		}, "nothing wrong"},
	} {
		got := planText(session().Show, tt.plan, tt.answer)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: without %q:\n%s", name, want, got)
			}
		}
		if tt.not != "" && strings.Contains(got, tt.not) {
			t.Errorf("%s: with %q:\n%s", name, tt.not, got)
		}
	}
}
