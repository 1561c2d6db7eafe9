// Package literals keeps texts of the published operator as they are: condition reasons and
// messages, annotations, labels, variables, metrics and names that clients compare. Schemas of
// custom resources and values of the chart have tests of their own (conformance/crd, tests/chart).
package literals

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

func TestPublishedTextsAreUnchanged(t *testing.T) {
	product := read(t, "charts", "eventbus", "protos", "reconcilers", "routeserver", "sidecars", "tools/switchyard", "tunnels", "workflows", "xds")
	list, err := os.ReadFile("testdata/published.txt")
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(string(list), "\n"), "\n") {
		if !strings.HasPrefix(text, "#") && !strings.Contains(product, text) {
			t.Errorf("the published text %q is in no Go file, proto or template of the product: published texts are not reworded", text)
		}
	}
}

// read returns the hand-written sources below folders, without tests and comments of their own lines.
func read(t *testing.T, folders ...string) string {
	t.Helper()
	var b strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			if err != nil || entry.IsDir() || !source(path) {
				return err
			}
			content, err := os.ReadFile(path)
			for line := range strings.Lines(string(content)) {
				if start := strings.TrimSpace(line); !strings.HasPrefix(start, "//") && !strings.HasPrefix(start, "#") {
					b.WriteString(line)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func source(path string) bool {
	switch filepath.Ext(path) {
	case ".go":
		return !strings.HasSuffix(path, "_test.go")
	case ".proto", ".yaml", ".tpl":
		return true
	}
	return false
}
