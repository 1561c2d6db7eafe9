package cli_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"switchyard.dev/routeserver/cli"
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
				if got.code != cli.ExitNo || !strings.Contains(got.err, "does not succeed at version 3 already") {
					t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
				}
				return
			}
			if got.code != cli.ExitOK || !strings.Contains(got.err, "version 8: good") || !strings.Contains(got.err, "version 9: bad") {
				t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
			}
			golden(t, c.want, got.out)
		})
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
	if err := json.Unmarshal([]byte(got.out), &report); err != nil || got.code != cli.ExitOK {
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

func TestBisectNamesAllThatCannotBeTold(t *testing.T) {
	file := save(t, "log.jsonl", stored(t))
	got := client().run(t.Context(), "bisect", file, "--", self(t, "exit"), "8")
	if got.code != cli.ExitNo {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	golden(t, "bisect-untold.txt", got.out)
}

func TestBisectOfTheLogThatIsServed(t *testing.T) {
	_, address := live(t, story()...)
	p := client()
	p.env["SWITCHYARD_SERVER"] = address
	got := p.run(t.Context(), "bisect", "--live", "--", self(t, "routes"), "alice")
	if got.code != cli.ExitOK || !strings.Contains(got.out, "the command fails from event 9 on") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}
