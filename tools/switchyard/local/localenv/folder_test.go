package localenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The kernel closes the lock of a program that is killed, as the test does here.
func TestFoldersOfKilledProgramsAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	folder := func() *Folder {
		t.Helper()
		f, err := NewFolder("cart")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.Root, "password"), []byte("secret"), 0o400); err != nil {
			t.Fatal(err)
		}
		return f
	}
	there := func(f *Folder) bool {
		_, err := os.Stat(filepath.Join(f.Root, "password"))
		return err == nil
	}
	other := filepath.Join(os.TempDir(), runFolders+"of-something-else")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	killed, orphan, runs := folder(), folder(), folder()
	child := exec.Command("sleep", "300")
	child.ExtraFiles = []*os.File{orphan.Lock}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	_, _ = killed.Lock.Close(), orphan.Lock.Close()
	next := folder()
	if there(killed) || !there(orphan) || !there(runs) {
		t.Errorf("there is that of the killed one: %t, of one with a process: %t, of one that runs: %t", there(killed), there(orphan), there(runs))
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	last := folder()
	if there(orphan) {
		t.Error("that of a process that has ended is there")
	}
	for _, f := range []*Folder{runs, next, last} {
		if err := f.Remove(); err != nil || there(f) {
			t.Errorf("removed: %v", err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(other) {
		t.Errorf("there is %v, %v", left, err)
	}
}
