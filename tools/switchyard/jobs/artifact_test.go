package jobs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// An artifact is written into no file of another user, with a link prepared in a shared folder, and replaces the file before it only
// as a whole.
func TestAnArtifactIsWrittenAsAWhole(t *testing.T) {
	dir := t.TempDir()
	file, victim := filepath.Join(dir, "report"), filepath.Join(dir, "victim")
	for name, text := range map[string]string{file: "before", victim: "mine"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(victim, file+".part"); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the connection is lost")
	for _, failed := range []error{broken, nil} {
		err := written(file, func(to io.Writer) error { return errors.Join(failed, errOf(io.WriteString(to, "after"))) })
		want := map[bool]string{true: "before", false: "after"}[failed != nil]
		text, wrong := os.ReadFile(file)
		if !errors.Is(err, failed) || wrong != nil || string(text) != want {
			t.Errorf("%q, %v, %v", text, err, wrong)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "mine" {
		t.Errorf("the other file is %q, %v", text, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
		t.Errorf("%v remain, %v", all, err)
	}
}

func errOf(_ int, err error) error { return err }
