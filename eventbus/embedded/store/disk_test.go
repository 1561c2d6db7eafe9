package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cached counts the pages of a file that are in the kernel's cache.
func cached(t *testing.T, name string, size int) (n int) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pages, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(pages); err != nil {
			t.Error(err)
		}
	}()
	in := make([]byte, (size+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&pages[0])), uintptr(size), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for _, b := range in {
		n += int(b & 1)
	}
	return n
}

func TestFlushedFilesAreReadFromTheDisk(t *testing.T) {
	const size = 1 << 20
	dir := t.TempDir()
	name := filepath.Join(dir, "below", "1.blk")
	if err := errors.Join(os.Mkdir(filepath.Dir(name), 0o700), os.WriteFile(name, make([]byte, size), 0o600)); err != nil {
		t.Fatal(err)
	}
	if cached(t, name, size) == 0 {
		t.Fatal("nothing of a file that was just written is in the cache")
	}
	if err := errors.Join(flushFiles(dir), flushFiles(filepath.Join(dir, "none"))); err != nil {
		t.Fatal(err)
	}
	var on unix.Statfs_t
	if err := unix.Statfs(dir, &on); err != nil {
		t.Fatal(err)
	}
	if on.Type == unix.TMPFS_MAGIC {
		return // it has no disk, only the cache
	}
	if n := cached(t, name, size); n > 0 {
		t.Errorf("%d pages are still read from the cache", n)
	}
}
