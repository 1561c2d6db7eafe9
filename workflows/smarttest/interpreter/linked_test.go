package interpreter_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestOnlyHarmlessModulesAreLinked: a module that is not in the program cannot be reached by any script.
func TestOnlyHarmlessModulesAreLinked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "switchyard.dev/workflows/cmd/smart-test").Output()
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); name == "github.com/1set/starlet" || strings.Contains(name, "1set/starlet/lib/") {
			modules = append(modules, strings.TrimPrefix(name, "github.com/1set/starlet/lib/"))
		}
	}
	slices.Sort(modules)
	if want := []string{"http", "json", "re", "string"}; !slices.Equal(modules, want) {
		t.Errorf("the program has the modules %q of starlet, want %q", modules, want)
	}
}
