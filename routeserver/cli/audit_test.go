package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/tests/golden"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/routes"
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

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u}]
`

func TestAuditOfTheLogThatIsServed(t *testing.T) {
	log, address := live(t, story()...)
	tip, err := log.Begin(t.Context(), event.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	other := tip
	other.Chain[0]++
	began := tip
	began.Epoch = "before"
	for name, c := range map[string]struct {
		args    []string
		witness event.Mark
		err     error
		code    exit.Code
		want    string
	}{
		"held against what the operator keeps":   {[]string{"--kubeconfig", config}, tip, nil, exit.OK, "held against the mark that the operator keeps, " + tip.Epoch + "/9"},
		"sealed anew":                            {[]string{"--kubeconfig", config}, other, nil, exit.No, "event 9 is another one than when the mark was taken"},
		"a mark that was given counts":           {[]string{"--kubeconfig", config, "--mark", tip.Epoch + "/9/" + tip.Chain.String()}, other, nil, exit.OK, "held against --mark"},
		"the log has begun again":                {[]string{"--kubeconfig", config}, began, nil, exit.OK, "keeps the mark of another epoch, before"},
		"the operator keeps nothing":             {[]string{"--kubeconfig", config}, event.Mark{}, nil, exit.OK, "the operator keeps no mark"},
		"it may not be read":                     {[]string{"--kubeconfig", config}, event.Mark{}, errors.New("forbidden"), exit.OK, "could not be read: forbidden"},
		"the cluster of a server that was named": {nil, other, nil, exit.OK, "its cluster is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			p := client()
			p.env["SWITCHYARD_SERVER"] = address
			p.cfg.Witness = func(_ context.Context, access *rest.Config, namespace string) (event.Mark, error) {
				if access.Host != "http://127.0.0.1:1" || namespace != "signadot" {
					t.Errorf("asked of %s, %s", access.Host, namespace)
				}
				return c.witness, c.err
			}
			got := p.run(t.Context(), append([]string{"audit", "verify", "--live"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.out, c.want) || strings.Contains(got.out, "of the file") {
				t.Errorf("exit code %d, want %q\n%s%s", got.code, c.want, got.out, got.err)
			}
		})
	}
}

func TestDryRunShowsWhatWouldChange(t *testing.T) {
	_, address := live(t, story()[:3]...)
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked routes.Question
	plan := routes.Plan{}
	p := client()
	p.env["SWITCHYARD_SERVER"], p.env["KUBECONFIG"] = address, config
	p.cfg.In = strings.NewReader("kind: SignadotSandbox")
	p.cfg.Plan = func(_ context.Context, _ *rest.Config, ask routes.Question) (routes.Plan, error) {
		asked = ask
		return plan, nil
	}
	args := []string{"dry-run", "--kubeconfig", config}
	got := p.run(t.Context(), append(args, "-f", "-", "--exit-code")...)
	if got.code != exit.OK || string(asked.Text) != "kind: SignadotSandbox" || asked.Delete || !strings.Contains(got.out, "no decision would become another one") {
		t.Errorf("asked %+v, exit code %d\n%s%s", asked, got.code, got.out, got.err)
	}
	if asked.Operator != "signadot" {
		t.Errorf("the operator's configuration is looked for in %q", asked.Operator)
	}
	plan = routes.Plan{
		Statements: story()[8:],
		Objects:    []string{"delete SignadotSandbox sb-alice", "delete ForkedWorkload shop/fork-alice"},
		Findings:   []string{"SignadotSandbox sb-alice: Ready is False (Odd): \x1b[31mred\nline"},
	}
	got = p.run(t.Context(), append(args, "--delete", "forkedworkload", "shop/fork-alice", "--exit-code")...)
	if got.code != exit.No || asked.Kind != "forkedworkload" || asked.Namespace != "shop" || asked.Name != "fork-alice" || !asked.Delete {
		t.Errorf("asked %+v, exit code %d\n%s%s", asked, got.code, got.out, got.err)
	}
	for _, want := range []string{
		"these objects would be written:\n  delete SignadotSandbox sb-alice\n  delete ForkedWorkload shop/fork-alice\n",
		`the operator would report:` + "\n" + `  SignadotSandbox sb-alice: Ready is False (Odd): \u001b[31mred\nline`,
		"these decisions would become others:\n  Deployment shop/customer, key alice, port 8080\n    - sandbox sb-alice",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("without %q:\n%s", want, got.out)
		}
	}
	plan.Statements = []event.Fact{declared("bob", "sb-bob", "fork-bob", "me"), observed("fork-bob", "", false)}
	if got = p.run(t.Context(), append(args, "-f", "-")...); got.code != exit.OK || !strings.Contains(got.out, "what would be new is shown as it begins") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	plan = routes.Plan{Refusals: []string{"SignadotSandbox sb: spec.id: Too long"}, Unknown: []string{"much"}, InTheWay: true}
	got = p.run(t.Context(), append(args, "-f", "-")...)
	if got.code != exit.InTheWay || !strings.Contains(got.out, "the API server would refuse:\n  SignadotSandbox sb: spec.id: Too long\nno object would be written\nno decision") ||
		!strings.Contains(got.out, "not known:\n  much\n") || strings.Contains(got.out, "nothing wrong") {
		t.Errorf("exit code %d\n%s%s", got.code, got.out, got.err)
	}
	plan = routes.Plan{Objects: []string{"update SignadotSandbox sb"}}
	if got = p.run(t.Context(), append(args, "-f", "-", "--exit-code")...); got.code != exit.No {
		t.Errorf("an object would change: exit code %d\n%s%s", got.code, got.out, got.err)
	}
	for name, args := range map[string][]string{
		"nothing": {"dry-run"}, "a name without --delete": {"dry-run", "sandbox", "x"},
		"a file and a name": {"dry-run", "-f", "-", "--delete", "sandbox", "x"}, "a file that is not there": {"dry-run", "-f", "none"},
	} {
		if got := p.run(t.Context(), args...); got.code != exit.Usage {
			t.Errorf("%s: exit code %d\n%s%s", name, got.code, got.out, got.err)
		}
	}
}
