package results_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/workflows/jobexec/results"
)

func folder(t *testing.T) (*results.Kept, string) {
	t.Helper()
	dir := t.TempDir()
	k, err := results.Open(results.Config{Folder: filepath.Join(dir, "kept")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k, dir
}

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

func TestFilesOfAJob(t *testing.T) {
	k, _ := folder(t)
	files(t, k)
}

// files stores, reads and deletes files of a job.
func files(t *testing.T, k *results.Kept) {
	ctx := t.Context()
	if m, err := k.Manifest(ctx, "acme", "j"); m != nil || err != nil {
		t.Fatal(m, err)
	}
	m := results.Manifest{Execution: 2}
	for _, path := range []string{"../../../etc/passwd", "/data/a", "data/a", "stdout", strings.Repeat("x", 4000), "a\\b%2f", "manifest"} {
		f := results.File{Path: path, Space: results.User}
		if err := k.Put(ctx, "acme", "j", &f, writes("of "+path)); err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256([]byte("of " + path)); string(f.SHA256) != string(sum[:]) || f.Size != int64(len(path)+3) {
			t.Errorf("%s: %+v", path, f)
		}
		m.Files = append(m.Files, f)
	}
	if err := k.Finish(ctx, "acme", "j", m); err != nil {
		t.Fatal(err)
	}
	kept, err := k.Manifest(ctx, "acme", "j")
	if err != nil || kept.Execution != 2 || len(kept.Files) != len(m.Files) {
		t.Fatal(kept, err)
	}
	for i := range kept.Files {
		f, err := k.Open(ctx, "acme", "j", &kept.Files[i])
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || string(text) != "of "+kept.Files[i].Path {
			t.Errorf("%s: %q, %v", kept.Files[i].Path, text, err)
		}
		_ = f.Close()
	}
	if kept.File(results.System, "stdout") != nil || kept.File(results.User, "stdout") == nil {
		t.Error("spaces are not apart")
	}
	if err := k.Delete(ctx, "acme", "j"); err != nil {
		t.Fatal(err)
	}
	if kept, err := k.Manifest(ctx, "acme", "j"); kept != nil || err != nil {
		t.Error(kept, err)
	}
}

func TestAFileIsStoredWholeOrNotAtAll(t *testing.T) {
	k, dir := folder(t)
	broken := errors.New("the runner has gone")
	f := results.File{Path: "a", Space: results.User}
	err := k.Put(t.Context(), "acme", "j", &f, func(w io.Writer) error { _ = writes("half")(w); return broken })
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := k.Put(ended, "acme", "j", &f, writes("whole")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := k.Open(t.Context(), "acme", "j", &f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "kept/acme/j"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v remain, %v", left, err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	k, dir := folder(t)
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(`{"execution":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "kept/acme/j"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../secret", filepath.Join(dir, "kept/acme/j/manifest")); err != nil {
		t.Fatal(err)
	}
	if m, err := k.Manifest(t.Context(), "acme", "j"); m != nil || err == nil {
		t.Errorf("%+v, %v", m, err)
	}
	if err := os.Symlink("..", filepath.Join(dir, "kept/evil")); err != nil {
		t.Fatal(err)
	}
	if err := k.Delete(t.Context(), "evil", "secret"); err == nil {
		t.Error("a link was followed")
	}
	if _, err := os.Stat(filepath.Join(dir, "secret")); err != nil {
		t.Error(err)
	}
}
