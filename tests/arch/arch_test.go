package arch

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func load(t *testing.T) []File {
	t.Helper()
	files, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("read only %d Go files below the root", len(files))
	}
	return files
}

func TestTheHouseKeepsItsRules(t *testing.T) {
	files := load(t)
	var findings []string
	for _, f := range files {
		for _, rule := range []func(File) []string{Direction, Above, Impurities, Torn, Sizes, Names, Undocumented, Idiom} {
			findings = append(findings, rule(f)...)
		}
	}
	findings = append(findings, PackagesWithoutDocument(files)...)
	findings = append(findings, KindsApart(files)...)
	findings = append(findings, Mutual(files)...)
	counted := count(t, root, files)
	findings = append(findings, Large(counted)...)
	findings = append(findings, Grown(counted, roomLines)...)
	used := map[string]bool{}
	for _, finding := range findings {
		key, excepted := exception(finding)
		used[key] = true
		if !excepted {
			t.Error(finding)
		}
	}
	for key := range exceptions {
		if !used[key] {
			t.Errorf("the exception %q matches nothing: remove it", key)
		}
	}
}

// count counts code lines, and logs them for each room.
func count(t *testing.T, root string, files []File) map[string]Counted {
	t.Helper()
	counted, err := Count(root, files)
	if err != nil {
		t.Fatal(err)
	}
	rooms := ByRoom(counted)
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		t.Logf("%-18s %6d code lines, %6d of tests", room, rooms[room].Product, rooms[room].Tests)
	}
	return counted
}

func TestCodeLinesHoldATokenEach(t *testing.T) {
	source := "package x\n\n// a comment\nvar (\n\ta = 1 // and what follows it\n\n\tb = `two\nlines`\n)\n/* one\nmore */\n"
	if got := codeLines([]byte(source)); got != 6 {
		t.Errorf("%d code lines, not 6", got)
	}
}

func TestTheRatchetsDetectGrowth(t *testing.T) {
	counted := map[string]Counted{"xds/a": {Product: maxPackageLines + 1}, "xds/b": {Product: 100}, "tools": {Product: 400}}
	if got := Large(counted); len(got) != 1 || !strings.Contains(got[0], "package xds/a has") {
		t.Errorf("of large packages: %q", got)
	}
	for want, limits := range map[string]map[string]int{
		"":                 {"xds": maxPackageLines + 101, "tools": 440},
		"xds has 1601":     {"xds": maxPackageLines + 100, "tools": 400},
		"lower roomLines":  {"xds": maxPackageLines + 101, "tools": 501},
		"at most 0: find ": {"xds": maxPackageLines + 101},
	} {
		got := Grown(counted, limits)
		if (want == "") != (len(got) == 0) || !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("with %v: %q, not %q", limits, got, want)
		}
	}
}

func TestNoKindImportsAKind(t *testing.T) {
	files := []File{
		parsed(t, "reconcilers/a/reconciler.go", "package a"), parsed(t, "reconcilers/b/reconciler.go", "package b"), parsed(t, "reconcilers/c/c.go", "package c"),
		parsed(t, "reconcilers/a/decide.go", "package a\n\nimport (\n_ \"switchyard.dev/reconcilers/b\"\n_ \"switchyard.dev/reconcilers/c\"\n)\n"),
		parsed(t, "reconcilers/a/a_test.go", "package a_test\n\nimport (\n_ \"switchyard.dev/reconcilers/a\"\n_ \"switchyard.dev/reconcilers/b\"\n)\n"),
		parsed(t, "reconcilers/c/all.go", "package c\n\nimport _ \"switchyard.dev/reconcilers/a\"\n"),
	}
	if got := KindsApart(files); len(got) != 1 || !strings.HasPrefix(got[0], "reconcilers/a/decide.go imports switchyard.dev/reconcilers/b;") {
		t.Errorf("%q", got)
	}
}

func TestNoTwoComponentsImportEachOther(t *testing.T) {
	files := []File{
		parsed(t, "xds/a/a.go", "package a\n\nimport _ \"switchyard.dev/routeserver/b\"\n"),
		parsed(t, "routeserver/b/b.go", "package b\n\nimport _ \"switchyard.dev/xds/c\"\n"),
		parsed(t, "routeserver/b/b_test.go", "package b\n\nimport _ \"switchyard.dev/tunnels/d\"\n"),
		parsed(t, "tunnels/d/main.go", "package main\n\nimport _ \"switchyard.dev/routeserver/b\"\n"),
	}
	if got := Mutual(files); len(got) != 1 || !strings.HasPrefix(got[0], "routeserver and xds import each other") {
		t.Errorf("%q", got)
	}
}

// The components that no other imports may themselves import every component of the product.
func TestInterfacesImportEveryComponent(t *testing.T) {
	for _, room := range interfaces {
		for _, below := range rooms["reconcilers"] {
			if f := parsed(t, room+"/x/x.go", "package x\n\nimport _ \""+module+"/"+below+"/y\"\n"); len(Direction(f)) > 0 {
				t.Errorf("%q", Direction(f))
			}
		}
	}
}

func parsed(t *testing.T, path, source string) File {
	t.Helper()
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, path, source, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	return File{Path: path, Syntax: syntax, fset: fset}
}

func exception(finding string) (string, bool) {
	for key, reason := range exceptions {
		if strings.HasPrefix(finding, key) && reason != "" {
			return key, true
		}
	}
	return "", false
}

func TestTheTopLevelIsThatOfTheDesign(t *testing.T) {
	dirs, err := TopLevel(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, known := rooms[dir]; !known {
			t.Errorf("top-level folder %s is not in the design", dir)
		}
	}
}

func TestEveryPurePackageExists(t *testing.T) {
	files := load(t)
	for _, p := range purePackages {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Dir() == p }) {
			t.Errorf("pure package %s does not exist: the purity rule guards nothing", p)
		}
	}
}

// A rule that cannot fail proves nothing: each is held against source that
// breaks it.
func TestEachRuleSeesItsBreach(t *testing.T) {
	long := "package fold\n\nfunc f() {\n" + strings.Repeat("\t_ = 1\n", maxFunctionLines) + "}\n"
	cases := map[string]struct {
		path, source, want string
		rule               func(File) []string
	}{
		"an import against the direction": {
			"eventbus/x/x.go", "package x\n\nimport _ \"switchyard.dev/routeserver/table\"\n", "may import only", Direction},
		"a library below cmd against the direction": {
			"routeserver/cmd/x/y/y.go", "package y\n\nimport _ \"switchyard.dev/reconcilers/fork\"\n", "may import only", Direction},
		"a tool that imports a test": {
			"tools/x/x.go", "package x\n\nimport _ \"switchyard.dev/tests/world\"\n", "may import only", Direction},
		"a command line that imports a tool": {
			"tools/switchyard/x/x.go", "package x\n\nimport _ \"switchyard.dev/tools/wait\"\n", "may import only", Direction},
		"flags outside the command line": {
			"workflows/x/x.go", "package x\n\nimport _ \"github.com/spf13/cobra\"\n", "only tools/switchyard may", Above},
		"flags of a program outside the command line": {
			"tools/cmd/x/main.go", "package main\n\nimport _ \"github.com/spf13/pflag\"\n", "only tools/switchyard may", Above},
		"a component that imports the command line": {
			"reconcilers/x/x.go", "package x\n\nimport _ \"switchyard.dev/tools/switchyard/show\"\n", "no component imports tools/switchyard", Above},
		"a program that imports the command line": {
			"tools/demo/cmd/x/main.go", "package main\n\nimport _ \"switchyard.dev/tools/switchyard\"\n", "no component imports tools/switchyard", Above},
		"a component that imports the control plane": {
			"tools/switchyard/x/x.go", "package x\n\nimport _ \"switchyard.dev/controlplane-link/api\"\n", "no component imports controlplane-link", Above},
		"a second multiplexer": {
			"controlplane-link/x/x.go", "package x\n\nimport _ \"github.com/libp2p/go-yamux/v5\"\n", "only tunnels/carrier may", Above},
		"a pure package that knows the network": {
			"routeserver/table/x.go", "package table\n\nimport _ \"net/http\"\n", "imports net/http", Impurities},
		"a pure package that reads the clock": {
			"xds/translate/x.go", "package translate\n\nimport \"time\"\n\nvar now = time.Now()\n", "time.Now", Impurities},
		"a pure package that starts a goroutine": {
			"eventbus/event/x.go", "package event\n\nfunc f() { go f() }\n", "goroutine", Impurities},
		"a decision that takes a context": {
			"reconcilers/sandbox/decide.go", "package sandbox\n\nimport _ \"context\"\n", "imports context", Impurities},
		"a state file that is written in place": {
			"eventbus/x/x.go", "package x\n\nimport \"os\"\n\nfunc f() { _ = os.WriteFile(\"state\", nil, 0o600) }\n", "in place (os.WriteFile)", Torn},
		"a state file that is cut off before it is written": {
			"eventbus/x/x.go", "package x\n\nimport \"os\"\n\nfunc f() { _, _ = os.OpenFile(\"state\", os.O_WRONLY|os.O_TRUNC, 0o600) }\n", "in place (os.O_TRUNC)", Torn},
		"a function that is too long": {"xds/fold.go", long, "at most 60", Sizes},
		"a reconciler that is too long": {
			"reconcilers/a/reconciler.go", "package a\n" + strings.Repeat("\n", maxReconcilerLines) + "var _ = 1\n", "at most 200", Sizes},
		"a package called util": {"xds/util/x.go", "package util\n", "name it after", Names},
		"an exported name without a comment": {
			"xds/x.go", "package xds\n\ntype T struct{}\n", "has no comment", Undocumented},
		"a comment that is not in Go's idiom": {
			"xds/x.go", "package xds\n\n// f says whether it\n// rains.\nfunc f() bool { return true }\n", "reports whether", Idiom},
		"a field's comment that is not": {
			"xds/x.go", "package xds\n\ntype t struct {\n\t// ok tells whether it rains.\n\tok bool\n}\n", "reports whether", Idiom},
		"a report that is an error": {
			"xds/x.go", "package xds\n\n// f reports whether it rains.\nfunc f() error { return nil }\n", "write when it is nil", Idiom},
		"an exported method without a comment": {
			"xds/x.go", "package xds\n\n// T is.\ntype T struct{}\n\nfunc (*T) M() {}\n", "has no comment", Undocumented},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			target := filepath.Join(dir, filepath.FromSlash(c.path))
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, []byte(c.source), 0o644); err != nil {
				t.Fatal(err)
			}
			files, err := Load(dir)
			if err != nil || len(files) != 1 {
				t.Fatalf("load: %d files, %v", len(files), err)
			}
			findings := c.rule(files[0])
			if len(findings) == 0 || !strings.Contains(strings.Join(findings, "\n"), c.want) {
				t.Errorf("got %q, want a finding with %q", findings, c.want)
			}
		})
	}
}
