package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDisksThatDoNotOpen: the error of a store on a full disk, or on a read-only one, names the file and what to do,
// and it opens when the disk is mended.
func TestDisksThatDoNotOpen(t *testing.T) {
	disk := newDisk(t)
	remount := func(flags uintptr) {
		if err := unix.Mount("", disk.Dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	filler := filepath.Join(disk.Dir, "filler")
	fill := func() { // to the last block: a large write fails while there are some
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for size := 1 << 20; size >= 1<<10; size /= 2 {
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, size))
				err = errors.Join(err, f.Sync())
			}
		}
		_ = f.Close() // it is only in the way
	}
	s := site{Path: filepath.Join(disk.Dir, "store.db")}
	refused := func(what, want string) {
		t.Helper()
		in, err := s.open(t.Context())
		if err == nil {
			_ = in.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.Path) || strings.Contains(err.Error(), "restore a backup") {
			t.Errorf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, err)
	}
	remount(unix.MS_RDONLY)
	refused("a new store on a read-only disk", "read-only file system")
	remount(0)
	fill()
	refused("a new store on a full disk", "disk is full")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := s.fill(t.Context()); err != nil {
		t.Fatalf("after the disk has space: %v", err)
	}
	remount(unix.MS_RDONLY)
	refused("a store on a read-only disk", "read-only file system")
	remount(0)
	fill()
	in, err := s.open(t.Context())
	n, want := 0, "check its disk, and the space on it"
	if err == nil { // the file system has found a little space
		for want = "full"; err == nil && n < 10_000; n++ {
			err = stepOf(1, 0, n).write(t.Context(), in)
		}
		err = errors.Join(err, in.Close())
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a store on a full disk after %d writes: %v", n, err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if in, err = s.open(t.Context()); err != nil {
		t.Fatalf("after the disk has space: %v", err)
	}
	if err := errors.Join(stepOf(2, 0, 0).write(t.Context(), in), in.Close()); err != nil {
		t.Error(err)
	}
}
