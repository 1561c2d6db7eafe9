package sandboxes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/tools/switchyard/command"
)

// tree makes files and links below a folder: the target of a link begins with ->, and ROOT is the folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		if target, link := strings.CutPrefix(text, "->"); err == nil && link {
			err = os.Symlink(strings.ReplaceAll(target, "ROOT", root), at)
		} else if err == nil {
			err = os.WriteFile(at, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The author of a file reads no other files of the machine on which it is applied.
func TestEmbeddedFilesAreInTheirFolder(t *testing.T) {
	root := tree(t, map[string]string{
		"id_rsa": "key", "shared/a": "shared", "shared/out": "->../id_rsa", "spec/in/a": "inner", "spec/link": "->in/a", "spec/whole": "->ROOT/spec/in",
		"spec/key": "->ROOT/id_rsa", "spec/up": "->../id_rsa", "spec/folder": "->..", "spec/shared": "->ROOT/shared", "linked": "->spec", "specs2/a": "beside",
	})
	for _, c := range []struct{ from, roots, path, want string }{
		{"spec", "", "in/a", "inner"}, {"spec", "", "./in/../in/a", "inner"}, {"spec", "", "link", "inner"}, {"spec", "", "whole/a", "inner"}, {"spec", "", "/in/a", "inner"},
		{"linked", "", "in/a", "inner"}, {"linked", "", "link", "inner"},
		{"spec", "", "../id_rsa", ""}, {"spec", "", "in/../../id_rsa", ""}, {"spec", "", "key", ""}, {"spec", "", "up", ""}, {"spec", "", "folder/id_rsa", ""},
		{"spec", "", "../specs2/a", ""}, {"spec", "", "shared/a", ""}, {"spec", "", "in", ""}, {"spec", "", "", ""}, {"linked", "", "../id_rsa", ""},
		{"spec", "shared", "shared/a", "shared"}, {"spec", "shared", "../shared/a", "shared"}, {"spec", "shared", "in/a", "inner"},
		{"spec", "shared", "../id_rsa", ""}, {"spec", "shared", "../shared/out", ""}, {"spec", "shared", "shared/out", ""},
		{"spec", ".", "../id_rsa", "key"}, {"spec", "specs2 shared", "../specs2/a", "beside"},
		{"spec", "nothing", "in/a", "inner"}, {"spec", "nothing", "../id_rsa", ""},
	} {
		in := input{path: filepath.Join(root, c.from, "sandbox.yaml")}
		for _, name := range strings.Fields(c.roots) {
			in.roots = append(in.roots, filepath.Join(root, name))
		}
		spec := "name: mine\nspec:\n  description: \"@{embed: " + c.path + "}\"\n"
		if err := os.WriteFile(in.path, []byte(spec), 0o600); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Name string `json:"name"`
			Spec struct {
				Description string `json:"description"`
			} `json:"spec"`
		}
		_, err := in.read(&command.Session{}, &got)
		if got.Spec.Description != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %s with --embed-root %q embeds %q, %v", c.path, c.from, c.roots, got.Spec.Description, err)
		}
	}
}

func TestAFileThatIsNotEmbeddedNamesTheFlag(t *testing.T) {
	root := tree(t, map[string]string{"id_rsa": "key", "spec/key": "->../id_rsa"})
	in := input{path: filepath.Join(root, "spec", "sandbox.yaml")}
	_, err := in.embedded(filepath.Join(root, "spec"), "key")
	if err == nil || !strings.Contains(err.Error(), "--embed-root") || !strings.Contains(err.Error(), filepath.Join(root, "spec")) {
		t.Errorf("the error is %v", err)
	}
}
