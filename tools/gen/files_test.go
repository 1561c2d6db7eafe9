package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// tree writes files into a new folder and returns the folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestChangesNameMissingDifferentAndLeftoverFiles(t *testing.T) {
	root := tree(t, map[string]string{
		"protos/gen/a/same.pb.go":                  "same",
		"protos/gen/a/old.pb.go":                   "old text",
		"protos/gen/b/gone.pb.go":                  "no longer made",
		"protos/crd/v1/job.go":                     "written by hand",
		"charts/operator/templates/crds/gone.yaml": "no longer made",
		"charts/operator/templates/crds/README.md": "written by hand",
	})
	files := Files{
		"protos/gen/a/same.pb.go": []byte("same"),
		"protos/gen/a/old.pb.go":  []byte("new text"),
		"protos/gen/c/new.pb.go":  []byte("new"),
	}
	changes, err := files.changes(root)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, c := range changes {
		said = append(said, c.path+" "+c.what())
	}
	want := []string{
		"charts/operator/templates/crds/gone.yaml no longer generated",
		"protos/gen/a/old.pb.go differs",
		"protos/gen/b/gone.pb.go no longer generated",
		"protos/gen/c/new.pb.go missing",
	}
	if len(said) != len(want) {
		t.Fatalf("have %q, want %q", said, want)
	}
	for i := range want {
		if said[i] != want[i] {
			t.Errorf("have %q, want %q", said[i], want[i])
		}
	}
	var out bytes.Buffer
	if err := apply(root, changes, &out); err != nil {
		t.Fatal(err)
	}
	if after, err := files.changes(root); err != nil || len(after) != 0 {
		t.Errorf("after writing there are still changes: %v %v", after, err)
	}
	if _, err := os.Stat(filepath.Join(root, "protos/crd/v1/job.go")); err != nil {
		t.Errorf("a file written by hand is gone: %v", err)
	}
}

func TestTwoGeneratorsCannotWriteOneFile(t *testing.T) {
	files := Files{"a": nil}
	if err := files.merge(Files{"a": nil}); err == nil {
		t.Error("the second file took the place of the first")
	}
}

// link makes path a link to this module's folder.
func link(t *testing.T, path string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(here, path); err != nil {
		t.Fatal(err)
	}
}
