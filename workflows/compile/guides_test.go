package compile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/workflows/compile"
	"switchyard.dev/workflows/spec"
)

// example matches the specifications in a guide: blocks of YAML with a name and a spec.
var example = regexp.MustCompile("(?ms)^```yaml\n((?:# [^\n]*\n)?name: .*?)^```$")

// The examples in the guides are complete: users copy them.
func TestTheExamplesOfTheGuidesCompile(t *testing.T) {
	for guide, want := range map[string]int{"workflows/README.md": 2, "reconcilers/sandboxes.md": 1, "tunnels/README.md": 1} {
		page, err := os.ReadFile(filepath.Join("../..", guide))
		if err != nil {
			t.Fatal(err)
		}
		found := example.FindAllStringSubmatch(string(page), -1)
		if len(found) != want {
			t.Errorf("%s has %d examples, not %d", guide, len(found), want)
		}
		var known []spec.Plugin
		for i, block := range found {
			path := filepath.Join(t.TempDir(), fmt.Sprintf("example-%d.yaml", i))
			if err := os.WriteFile(path, []byte("# --set tag=1\n"+block[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(block[1], "\n  runner:") {
				var p spec.Plugin
				if err := read(path, &p); err != nil {
					t.Errorf("%s: %v", guide, err)
				}
				known = append(known, p)
				continue
			}
			var s spec.Sandbox
			if err := read(path, &s); err != nil {
				t.Errorf("%s: %v", guide, err)
				continue
			}
			if _, err := compile.Sandbox(compile.Input{Sandbox: s, Plugins: known}); err != nil {
				t.Errorf("%s: %v", guide, err)
			}
		}
	}
}
