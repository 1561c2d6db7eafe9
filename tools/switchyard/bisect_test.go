package switchyard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/switchyard/command/exit"
)

// self is this test, as a command that bisect can run; see TestMain.
func self(t *testing.T, as string) string {
	t.Helper()
	t.Setenv("BISECTED", as)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBisectFindsTheEventThatBrokeIt(t *testing.T) {
	file := save(t, "log.jsonl", stored(t))
	for name, c := range map[string]struct{ as, args, want string }{
		"as switchyard sees it":     {"switchyard", "explain deployment/shop/customer --key alice", "bisect-alice.txt"},
		"as the routes API says it": {"routes", "alice", "bisect-alice.txt"},
		"another one":               {"switchyard", "history --key carol\x1b[31m", "bisect-none.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"bisect", file, "--", self(t, c.as)}, strings.Fields(c.args)...)
			got := client().run(t.Context(), args...)
			if c.want == "bisect-none.txt" {
				if got.code != exit.No || !strings.Contains(got.err, "does not fail at version 9, which should be bad") {
					t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
				}
				return
			}
			if got.code != exit.OK || !strings.Contains(got.err, "version 8: good") || !strings.Contains(got.err, "version 9: bad") {
				t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
			}
			golden.Compare(t, "testdata/"+c.want, got.out)
		})
	}
}

// youngLog is the log of an operator that was installed a moment ago: an empty table,
// then the first sandbox, whose route somebody takes away.
func youngLog(t *testing.T, name string) string {
	t.Helper()
	facts := []event.Fact{
		{Key: event.Log, Time: began, Data: &factv1.Complete{Reason: "first"}},
		declared("alice", "sb-alice", "fork-alice", "kubectl-client-side-apply"), observed("fork-alice", "", false),
		observed("fork-alice", "10.96.0.11", true), withdrawn("alice", "sb-alice"),
		declared("bob", "sb-bob", "fork-bob", "argocd"), observed("fork-bob", "10.96.0.12", true),
	}
	return save(t, name, sealed(t, facts))
}

// A new user runs the command of the troubleshooting page for their deleted sandbox: it fails at the
// start of the log, where there was no sandbox yet, and at its end.
func TestTheBisectOfTheGuideWorksOnAYoungLog(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "charts", "operator", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^switchyard (bisect .*?)\s*(#.*)?$`).FindSubmatch(page)
	if line == nil {
		t.Fatal("the page has no line with switchyard bisect")
	}
	here := strings.NewReplacer(" switchyard ", " "+self(t, "switchyard")+" ", "deployment/hotrod/customer", "deployment/shop/customer", "KEY", "alice")
	args := strings.Fields(here.Replace(string(line[1])))
	t.Chdir(filepath.Dir(youngLog(t, filepath.Base(args[1]))))
	got := client().run(t.Context(), args...)
	if got.code != exit.OK || !strings.Contains(got.out, "the command fails from event 5 on") || !strings.Contains(got.out, "written by kubectl-delete") {
		t.Errorf("%v: exit code %d\n%s%s", args, got.code, got.out, got.err)
	}
	if strings.Count(got.err, "version 7: bad") != 1 {
		t.Errorf("version 7 was not tried once:\n%s", got.err)
	}
}

func TestBisectSeeksNoGoodVersionWhereOneIsNamed(t *testing.T) {
	log := youngLog(t, "log.jsonl")
	got := client().run(t.Context(), "bisect", log, "--good", "1", "--", self(t, "routes"), "alice")
	if got.code != exit.No || !strings.Contains(got.err, "does not succeed at version 1 already") || strings.Contains(got.err, "version 7") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	got = client().run(t.Context(), "bisect", log, "--bad", "1", "--", self(t, "routes"), "alice")
	if got.code != exit.No || !strings.Contains(got.err, "there is no version before 1") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}

// The sandbox of a route group is deleted: bisect names it, and the group through which
// that reached the key.
func TestBisectNamesTheSandboxThatLeftAGroup(t *testing.T) {
	blue := declared("blue", "sb-alice", "fork-alice", "kubectl-client-side-apply")
	blue.Cause = cause("SignadotRouteGroup", "", "blue", "argocd", 1)
	left := declared("blue", "", "", "")
	left.Data = &factv1.RoutingDeclared{RoutingKey: "blue"}
	left.Cause = cause("SignadotSandbox", "", "sb-alice", "kubectl-client-side-apply", 2)
	left.Cause.Via = "SignadotRouteGroup/blue"
	file := save(t, "log.jsonl", sealed(t, []event.Fact{
		blue, observed("fork-alice", "10.96.0.11", true),
		{Key: event.Log, Time: began, Data: &factv1.Complete{Reason: "first", RoutingKeys: 1, Workloads: 1}}, left,
	}))
	got := client().run(t.Context(), "bisect", file, "--", self(t, "switchyard"), "explain", "deployment/shop/customer", "--key", "blue")
	by := "key blue declared, without members\n               by SignadotSandbox sb-alice, generation 2, specification by jo@example.com, last written by kubectl-client-side-apply, through SignadotRouteGroup blue\n"
	if got.code != exit.OK || !strings.Contains(got.out, by) {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}

func TestBisectByTimeAndInJSON(t *testing.T) {
	file := save(t, "log.jsonl", stored(t))
	got := client().run(t.Context(), "bisect", file, "--good", "2026-11-20T14:11:00Z", "--bad", "now", "-o", "json", "--", self(t, "routes"), "bob")
	var report struct {
		FirstBad, LastGood string
		Exact              bool
		Probes             int
		Events             []struct {
			Key   string
			Cause struct{ Kind, Name, Manager string }
		}
		Diff struct {
			Changes []struct{ RoutingKey string }
		}
	}
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != exit.OK {
		t.Fatalf("exit code %d, %v\n%s%s", got.code, err, got.out, got.err)
	}
	if report.FirstBad != epoch+"/8" || report.LastGood != epoch+"/7" || !report.Exact || len(report.Events) != 1 ||
		report.Events[0].Key != "key/bob" || report.Events[0].Cause.Manager != "kubectl-delete" || report.Diff.Changes[0].RoutingKey != "bob" {
		t.Errorf("got %+v", report)
	}
	if !strings.HasPrefix(got.err, "version 6: good") {
		t.Errorf("the moment is another version:\n%s", got.err)
	}
}

func TestBisectNamesUntestableVersions(t *testing.T) {
	file := save(t, "log.jsonl", stored(t))
	got := client().run(t.Context(), "bisect", file, "--", self(t, "exit"), "8")
	if got.code != exit.No {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	golden.Compare(t, "testdata/bisect-untold.txt", got.out)
}

func TestBisectOfTheLogThatIsServed(t *testing.T) {
	_, address := live(t, story()...)
	p := client()
	p.env["SWITCHYARD_SERVER"] = address
	got := p.run(t.Context(), "bisect", "--live", "--", self(t, "routes"), "alice")
	if got.code != exit.OK || !strings.Contains(got.out, "the command fails from event 9 on") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}
