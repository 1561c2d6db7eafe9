package results_test

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"syscall"
	"testing"

	"switchyard.dev/tests/bucket"
	"switchyard.dev/workflows/jobexec/results"
)

// A bucket on a volume that is full answers with an error, and has no part of the file. With space it takes files again.
func TestABucketThatIsFull(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mount("none", data, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a volume takes root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	endpoint, _ := bucket.ServerIn(t, data)
	k, err := results.Open(results.Config{S3: results.S3{Bucket: bucket.Name, Endpoint: endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(job string, size int64) error {
		f := results.File{Path: "a", Space: results.User}
		err := k.Put(t.Context(), "acme", job, &f, func(w io.Writer) error { _, err := io.CopyN(w, rand.Reader, size); return err })
		if _, missing := k.Open(t.Context(), "acme", job, &f); err != nil && !errors.Is(missing, fs.ErrNotExist) {
			t.Errorf("a part of the file remains: %v", missing)
		}
		return err
	}
	if err := put("small", 1<<20); err != nil {
		t.Error(err)
	}
	if err = put("large", 100<<20); err == nil {
		t.Error("a volume of 64 MiB has a file of 100 MiB")
	}
	t.Log(err)
	if err := put("later", 1<<20); err != nil {
		t.Errorf("it is full afterwards: %v", err)
	}
}
