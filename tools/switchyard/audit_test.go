package switchyard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/switchyard/command/exit"
)

// tampered returns the story's archive with its lines changed; line 0 is event 1.
func tampered(t *testing.T, change func(lines []string) []string) string {
	t.Helper()
	whole, err := os.ReadFile(save(t, "log.jsonl", stored(t)))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	path := filepath.Join(t.TempDir(), "log.jsonl")
	if err := os.WriteFile(path, []byte(lines[0]+strings.Join(change(lines[1:]), "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAuditNamesTheFirstEventThatIsWrong(t *testing.T) {
	for name, change := range map[string]func([]string) []string{
		"altered": func(l []string) []string {
			l[3] = strings.Replace(l[3], `"name":"fork-bob"`, `"name":"fork-mallory"`, 1)
			return l
		},
		"dropped":   func(l []string) []string { return append(l[:3], l[4:]...) },
		"inserted":  func(l []string) []string { return append(l[:4:4], append([]string{l[1]}, l[4:]...)...) },
		"reordered": func(l []string) []string { l[3], l[4] = l[4], l[3]; return l },
		"cut-off":   func(l []string) []string { return l[:6] },
		"no-event":  func(l []string) []string { l[3] = "hello\n"; return l },
	} {
		t.Run(name, func(t *testing.T) {
			path := tampered(t, change)
			for output, suffix := range map[string]string{"table": ".txt", "json": ".json"} {
				got := client().run(t.Context(), "audit", "verify", path, "-o", output)
				if got.code != exit.No || got.err != "" {
					t.Errorf("exit code %d\n%s", got.code, got.err)
				}
				golden.Compare(t, "testdata/audit-"+name+suffix, got.out)
			}
			for _, args := range [][]string{{"replay", path}, {"table", "--archive", path}, {"bisect", path, "--", "true"}} {
				got := client().run(t.Context(), args...)
				if got.code != exit.Failed || !strings.Contains(got.err, "audit verify") {
					t.Errorf("%v works on it: exit code %d, %s%s", args, got.code, got.out, got.err)
				}
			}
		})
	}
}

// Somebody gives audit verify the file at hand: a manifest, an empty file, an archive
// that a copy has cut off in its first line. To run audit verify on it is no advice.
func TestAFileThatIsNoArchiveIsNotToBeAudited(t *testing.T) {
	for name, c := range map[string]struct{ file, text, says string }{
		"a manifest":            {"sandbox.yaml", "apiVersion: signadot.com/v1\nkind: SignadotSandbox\n", "this is not the archive of a routing log"},
		"an empty file":         {"log.jsonl", "", "the file is empty"},
		"cut off at once":       {"log.jsonl", `{"switchyard":"log","ver`, "it is truncated"},
		"not compressed":        {"log.jsonl.gz", "this was never compressed\n", "the file name ends in .gz, but the file is not compressed: gzip: invalid header"},
		"compressed, unnamed":   {"log.jsonl", "\x1f\x8b\x08\n", "this is not the archive of a routing log"},
		"of a later version":    {"log.jsonl", `{"switchyard":"log","version":2}` + "\n", "use a newer one"},
		"a log of another kind": {"log.jsonl", `{"level":"info","msg":"hello"}` + "\n", "this is not the archive of a routing log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), c.file)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"audit", "verify", path}, {"replay", path}, {"bisect", path, "--", "true"}, {"table", "--archive", path}} {
				got := client().run(t.Context(), args...)
				if got.code != exit.Failed || !strings.Contains(got.err, path) || !strings.Contains(got.err, c.says) {
					t.Errorf("%v: exit code %d, without %q:\n%s%s", args, got.code, c.says, got.out, got.err)
				}
				if strings.Contains(got.err, "audit verify") || !strings.HasSuffix(got.err, "\nswitchyard log export FILE writes an archive of the log\n") {
					t.Errorf("%v: the advice is wrong:\n%s", args, got.err)
				}
			}
		})
	}
}

func TestAuditAgainstAMark(t *testing.T) {
	events := stored(t)
	path := save(t, "log.jsonl", events)
	chain, err := event.ChainOf(events[6].Message)
	if err != nil {
		t.Fatal(err)
	}
	got := client().run(t.Context(), "audit", "verify", path, "--mark", epoch+"/7/"+chain.String())
	if got.code != exit.OK || !strings.Contains(got.out, "held against --mark, "+epoch+"/7") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	got = client().run(t.Context(), "audit", "verify", path, "--mark", epoch+"/7/"+strings.Repeat("ab", 32))
	if got.code != exit.No || !strings.Contains(got.out, "event 7 is another one than when the mark was taken") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	got = client().run(t.Context(), "audit", "verify", path, "--mark", epoch+"/12/"+strings.Repeat("ab", 32))
	if got.code != exit.No || !strings.Contains(got.out, "event 10 is missing") || !strings.Contains(got.out, "had reached event 12") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
}
