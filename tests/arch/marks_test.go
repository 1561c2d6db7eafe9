package arch

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The page "Security model" states, for each annotation and label that the operator reads
// or writes, who can set it and what trusts it.
func TestTheSecurityModelHasEveryAnnotationAndLabel(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "charts/operator/security-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Annotations and labels\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := marks(load(t))
	if len(names) < 20 {
		t.Fatalf("found only %d annotations and labels", len(names))
	}
	for name, file := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("%s defines %s: add it to the table Annotations and labels, with who can set it and what trusts it", file, name)
		}
	}
}

// marks returns the values of the constants Annotation… and Label… of product packages, with the
// file that defines each.
func marks(files []File) map[string]string {
	names := map[string]string{}
	for _, f := range files {
		if f.Test() || f.Generated() || f.Room() == "tests" || f.Room() == "tools" {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != len(spec.Names) {
				return true
			}
			for n, name := range spec.Names {
				value, is := spec.Values[n].(*ast.BasicLit)
				if !is || value.Kind != token.STRING || !strings.HasPrefix(name.Name, "Annotation") && !strings.HasPrefix(name.Name, "Label") {
					continue
				}
				if text, err := strconv.Unquote(value.Value); err == nil && strings.Contains(text, "/") {
					names[text] = f.Path
				}
			}
			return true
		})
	}
	return names
}
