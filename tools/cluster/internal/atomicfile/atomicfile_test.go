package atomicfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"first and longer", "second", ""} {
		if err := Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("got %v, %v, want mode 0640", info.Mode(), err)
	}
	alone(t, path)
}

// TestAFullDiskKeepsTheOldContent writes more than the disk takes.
func TestAFullDiskKeepsTheOldContent(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("test", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "file")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, make([]byte, 64<<10), 0o600); err == nil {
		t.Fatal("the disk is not full: this test sees nothing")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("got %q, %v, want the old content", got, err)
	}
	alone(t, path)
}

// TestAWriterThatIsKilledLeavesTheOldContent kills a process while it replaces a
// file again and again.
func TestAWriterThatIsKilledLeavesTheOldContent(t *testing.T) {
	if path := os.Getenv("WRITE_FOR_EVER"); path != "" {
		for text := strings.Repeat("x", 1<<20); ; {
			if err := Write(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "file")
	for range 20 {
		writer := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		writer.Env = append(os.Environ(), "WRITE_FOR_EVER="+path)
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(path); err == nil {
				break
			}
		}
		if err := writer.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = writer.Wait() // it was killed, and says so
		if info, err := os.Stat(path); err != nil || info.Size() != 1<<20 {
			t.Fatalf("got %d bytes, %v, want all 1048576", info.Size(), err)
		}
	}
}

// alone fails when anything but the file is in its folder.
func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("in the folder are %v, %v, want the file alone", entries, err)
	}
}
