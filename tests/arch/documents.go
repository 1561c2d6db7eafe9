package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// Names returns packages with a meaningless name.
func Names(f File) []string {
	if slices.Contains(vagueNames, f.Syntax.Name.Name) {
		return []string{fmt.Sprintf("%s: package %s: name it after its contents", f.Path, f.Syntax.Name.Name)}
	}
	return nil
}

// Undocumented reports exported names without a comment.
func Undocumented(f File) []string {
	if f.Test() || f.Generated() || f.Syntax.Name.Name == "main" {
		return nil
	}
	var broken []string
	missing := func(pos token.Pos, name string) {
		broken = append(broken, fmt.Sprintf("%s:%d %s is exported and has no comment", f.Path, f.Line(pos), name))
	}
	for _, decl := range f.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
				missing(d.Pos(), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if name, ok := undocumentedSpec(d, spec); ok {
					missing(spec.Pos(), name)
				}
			}
		}
	}
	return broken
}

// unidiomatic are the verbs that Go's own documents do not use of a function, with those that
// they use.
var unidiomatic = []struct{ says, idiom string }{
	{"gives the", "returns the"}, {"gives a", "returns a"},
	{"gives what", "returns what"}, {"gives all", "returns all"}, {"gives those", "returns those"}, {"gives how", "returns how"},
}

// saysWhether matches a beginning that comments must not have.
var saysWhether = regexp.MustCompile(`^\w+ (says|tells) whether `)

// Idiom returns functions with results that lack the usual beginning of a Go comment ("X returns …",
// "X reports whether …"), and names with comments that begin with another verb for "reports".
func Idiom(f File) []string {
	var broken []string
	for _, c := range f.Syntax.Comments {
		if begins := saysWhether.FindString(c.Text()); begins != "" && c != f.Syntax.Doc {
			broken = append(broken, fmt.Sprintf("%s:%d %s…: write \"reports whether\"", f.Path, f.Line(c.Pos()), begins))
		}
	}
	for _, decl := range f.Syntax.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || d.Doc == nil || d.Type.Results == nil || f.Generated() {
			continue
		}
		text := strings.Join(strings.Fields(d.Doc.Text()), " ")
		if strings.HasPrefix(text, d.Name.Name+" reports whether ") && onlyErrors(d) {
			broken = append(broken, fmt.Sprintf("%s:%d %s returns an error: write when it is nil", f.Path, f.Line(d.Pos()), d.Name.Name))
		}
		for _, u := range unidiomatic {
			if strings.HasPrefix(text, d.Name.Name+" "+u.says+" ") {
				broken = append(broken, fmt.Sprintf("%s:%d %s: write %q instead of %q", f.Path, f.Line(d.Pos()), d.Name.Name, u.idiom, u.says))
			}
		}
	}
	return broken
}

// onlyErrors reports whether a function has no result but an error.
func onlyErrors(d *ast.FuncDecl) bool {
	results := d.Type.Results.List
	t, ok := results[0].Type.(*ast.Ident)
	return len(results) == 1 && ok && t.Name == "error"
}

// exportedReceiver reports whether a function is reachable from outside: a plain
// function, or a method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) (string, bool) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Name.Name, s.Name.IsExported() && s.Doc == nil && d.Doc == nil
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				return name.Name, true
			}
		}
	}
	return "", false
}

// PackagesWithoutDocument returns the directories without a package comment in any file.
func PackagesWithoutDocument(files []File) []string {
	documented := map[string]bool{}
	for _, f := range files {
		if f.Test() || f.Generated() {
			continue
		}
		documented[f.Dir()] = documented[f.Dir()] || f.Syntax.Doc != nil
	}
	var missing []string
	for dir, ok := range documented {
		if !ok {
			missing = append(missing, dir+" has no package document")
		}
	}
	slices.Sort(missing)
	return missing
}
