package targets

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goCommand answers what tools/preflight asks, and fails like go test where FAILING is a
// part of the call: with the output in OUTPUT.
const goCommand = `#!/bin/sh
[ "$1" != env ] || { echo go1.26.0; exit 0; }
echo "$*" >>"$CALLS"
case "$*" in *"$FAILING"*) printf '%s' "$OUTPUT"; exit 1;; esac
`

// failures is what go test writes of packages of the repository and of a module in it.
const failures = `ok  	switchyard.dev/fine	0.1s
--- FAIL: TestThatFails (0.00s)
    --- FAIL: TestThatFails/inside (0.00s)
--- FAIL: TestToo (0.00s)
FAIL
FAIL	switchyard.dev/package	0.1s
FAIL	switchyard.dev/other/package [build failed]
--- FAIL: TestBefore (0.00s)
panic: test timed out after 15m0s
FAIL	switchyard.dev/slow	900.1s
--- FAIL: TestTool (0.00s)
FAIL
FAIL	switchyard.dev/tools/gen/part	0.1s
FAIL
`

// makeTest runs `make test` and returns the calls of the go command that contain
// `test` or `vet`, and what was written.
func makeTest(t *testing.T, failing string) (calls []string, output string, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{"bin/go": goCommand, "bin/cluster": "#!/bin/sh\n", "bin/strace": "#!/bin/sh\n", "bin/mkfs.ext4": "#!/bin/sh\n"} {
		if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "make", "-C", "../..", "test")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // of the make that runs this test
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS")
	})
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "CALLS="+filepath.Join(dir, "calls"),
		"FAILING="+failing, "OUTPUT="+failures, "SWITCHYARD_CACHE="+dir, "ENVOY=/bin/true")
	out, err := cmd.CombinedOutput()
	called, _ := os.ReadFile(filepath.Join(dir, "calls"))
	for line := range strings.Lines(string(called)) {
		if strings.HasPrefix(line, "test ") || strings.HasPrefix(line, "vet ") {
			calls = append(calls, strings.TrimSpace(line))
		}
	}
	return calls, string(out), err
}

// TestMakeTestGoesOnAfterAGroupThatFailed: somebody who waited twenty minutes for a
// failure wants to know what else fails, and how to see that alone.
func TestMakeTestGoesOnAfterAGroupThatFailed(t *testing.T) {
	const alone = "   CGO_ENABLED=0 GOFLAGS=-trimpath go test -count=1 "
	all, out, err := makeTest(t, "nothing that is ever called")
	if err != nil || strings.Contains(out, "failed") || len(all) < 8 {
		t.Fatalf("without a failure: %v after %q:\n%s", err, all, out)
	}
	for failing, command := range map[string]string{
		"run -C tools/gen .":       "make gen-check",
		"-vet=off -p ":             "make test-packages",
		"-timeout 20m ./tests/e2e": "make test-cluster",
	} {
		t.Run(command, func(t *testing.T) {
			calls, out, err := makeTest(t, failing)
			if err == nil {
				t.Error("it ends well")
			}
			for _, call := range all {
				if !slices.Contains(calls, call) {
					t.Errorf("`go %s` was not run any more", call)
				}
			}
			_, summary, _ := strings.Cut(out, "== failed")
			for _, want := range []string{command + "\n", "--- FAIL: TestThatFails", "FAIL\tswitchyard.dev/package",
				alone + "-run '^(TestThatFails|TestToo)$' ./package\n",
				alone + "./other/package\n", // It does not build.
				alone + "./slow\n",          // Nobody knows which test hung.
				"go test -C tools/gen -count=1 -run '^(TestTool)$' ./part\n",
			} {
				if !strings.Contains(summary, want) {
					t.Errorf("no %q at the end of\n%s", want, out)
				}
			}
			if strings.Contains(summary, "make build") {
				t.Errorf("a group that passed is said to have failed:\n%s", summary)
			}
		})
	}
}
