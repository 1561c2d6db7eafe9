package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-tools/pkg/rbac"
	"sigs.k8s.io/yaml"
)

// markedDirs are the folders whose code the controller manager runs, and whose
// markers therefore are its rights.
var markedDirs = []string{"reconcilers", "sidecars"}

// marker begins a comment that asks for a right.
const marker = "// +kubebuilder:rbac:"

// rules collects the markers of the manager into a list of rules, which the
// chart's ClusterRole template includes with .Files.Get.
//
// controller-gen passes over markers in the doc comment of a function, without
// a word, and that is where they are most use to a reader: at the code that
// needs the right. So all markers are gathered here, wherever they stand, into
// one package that controller-gen then reads. Each has a line directive, so
// that a complaint names the place where it really is.
func rules(root string) (_ Files, err error) {
	marked, err := markers(root)
	if err != nil || len(marked) == 0 {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "switchyard-rules-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	source := strings.Join(marked, "") + "package marked\n"
	if err := os.WriteFile(filepath.Join(dir, "marked.go"), []byte(source), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module marked\n"), 0o600); err != nil {
		return nil, err
	}
	out, err := runGenerator(dir, rbac.Generator{RoleName: "signadot-manager-role"}, ".")
	if err != nil {
		return nil, err
	}
	list, err := rulesOf(out["role.yaml"].Bytes())
	if err != nil {
		return nil, err
	}
	header := "# Generated from +kubebuilder:rbac markers by tools/gen. Do not edit.\n"
	return Files{rulesFile: append([]byte(header), list...)}, nil
}

// rulesOf returns the rules of a generated ClusterRole as YAML.
func rulesOf(role []byte) ([]byte, error) {
	if bytes.Count(role, []byte("---\n")) != 1 {
		return nil, errors.New("a +kubebuilder:rbac marker names a namespace or a role of its own; leave that out: the chart takes one list of rules, and says itself in which namespaces they hold")
	}
	var parsed rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(role, &parsed); err != nil {
		return nil, fmt.Errorf("read the generated role: %w", err)
	}
	return yaml.Marshal(parsed.Rules)
}

// markers returns every marker of the marked folders' Go code, tests left out,
// as lines of Go.
func markers(root string) ([]string, error) {
	var out []string
	for _, dir := range markedDirs {
		if !exists(root, dir) {
			continue
		}
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := markersIn(path)
			out = append(out, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// markersIn returns the markers of one file, each after a line directive.
func markersIn(path string) ([]string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, marker) {
				line := files.Position(comment.Pos()).Line
				out = append(out, fmt.Sprintf("//line %s:%d\n%s\n", path, line, comment.Text))
			}
		}
	}
	return out, nil
}
