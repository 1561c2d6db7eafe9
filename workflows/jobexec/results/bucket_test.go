package results_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"switchyard.dev/tests/bucket"
	"switchyard.dev/workflows/jobexec/results"
)

// A bucket of MinIO keeps what a folder keeps.
func TestABucketKeepsFiles(t *testing.T) {
	endpoint, client := bucket.Server(t)
	open := func(name string) *results.Kept {
		k, err := results.Open(results.Config{S3: results.S3{Bucket: name, Endpoint: endpoint}, Limits: results.Limits{Files: 7}})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := open(bucket.Name)
	if k.Limits != (results.Limits{File: 1 << 30, Job: 2 << 30, Stream: results.DefaultLimits.Stream, Files: 7}) {
		t.Errorf("limits %+v", k.Limits)
	}
	left := func() (names []string) {
		for o := range client.ListObjectsIter(t.Context(), bucket.Name, minio.ListObjectsOptions{Recursive: true}) {
			names = append(names, o.Key)
		}
		for o := range client.ListIncompleteUploads(t.Context(), bucket.Name, "", true) {
			names = append(names, "incomplete "+o.Key)
		}
		return names
	}
	t.Run("files of a job", func(t *testing.T) {
		if files(t, k); len(left()) > 0 {
			t.Errorf("%q remain", left())
		}
	})
	t.Run("a file of several parts, read from the middle", func(t *testing.T) { parts(t, k) })
	t.Run("a file is stored whole or not at all", func(t *testing.T) {
		broken, f := errors.New("the runner has gone"), results.File{Path: "a", Space: results.User}
		err := k.Put(t.Context(), "acme", "half", &f, func(w io.Writer) error {
			_, _ = io.CopyN(w, rand.Reader, 40<<20)
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		if _, err := k.Open(t.Context(), "acme", "half", &f); !errors.Is(err, fs.ErrNotExist) || len(left()) > 0 {
			t.Errorf("%v; %q remain", err, left())
		}
	})
	t.Run("a bucket that does not exist", func(t *testing.T) {
		none, f := open("none"), results.File{Path: "a", Space: results.User}
		if err := none.Put(t.Context(), "acme", "j", &f, writes("x")); err == nil || !strings.Contains(err.Error(), "bucket none") {
			t.Errorf("%v", err)
		}
		if m, err := none.Manifest(t.Context(), "acme", "j"); err == nil {
			t.Errorf("a missing bucket is a job without a manifest: %v", m)
		}
	})
	t.Run("a server with the certificate of an unknown authority", func(t *testing.T) {
		t.Setenv("S3_CA", "")
		if m, err := open(bucket.Name).Manifest(t.Context(), "acme", "j"); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%v, %v", m, err)
		}
		t.Setenv("S3_CA", "none")
		if _, err := results.Open(results.Config{S3: results.S3{Bucket: "jobs", Endpoint: endpoint}}); err == nil || !strings.Contains(err.Error(), "ca.crt") {
			t.Errorf("%v", err)
		}
	})
	t.Run("an endpoint that is none", func(t *testing.T) {
		for _, at := range []string{"s3.local", "ftp://s3.local", "http://s3.local/path"} {
			if _, err := results.Open(results.Config{S3: results.S3{Bucket: "jobs", Endpoint: at}}); err == nil || !strings.Contains(err.Error(), at) {
				t.Errorf("%s: %v", at, err)
			}
		}
		if _, err := results.Open(results.Config{Folder: t.TempDir(), S3: results.S3{Bucket: "jobs"}}); err == nil {
			t.Error("a folder and a bucket")
		}
	})
}

// parts stores a file of 40 MiB.
func parts(t *testing.T, k *results.Kept) {
	content, f := make([]byte, 40<<20), results.File{Path: "a", Space: results.User}
	_, _ = rand.Read(content)
	if err := k.Put(t.Context(), "acme", "parts", &f, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil || f.Size != 40<<20 {
		t.Fatal(f, err)
	}
	file, err := k.Open(t.Context(), "acme", "parts", &f)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // A test.
	for _, at := range []int64{0, 33 << 20, 5} {
		if _, err := file.Seek(at, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 1<<20)
		if _, err := io.ReadFull(file, got); err != nil || !bytes.Equal(got, content[at:at+1<<20]) {
			t.Errorf("at %d: other bytes, %v", at, err)
		}
	}
	if n, err := file.Seek(0, io.SeekEnd); n != 40<<20 || err != nil { // as http.ServeContent does
		t.Errorf("it has %d bytes, %v", n, err)
	}
	if err := k.Delete(t.Context(), "acme", "parts"); err != nil {
		t.Error(err)
	}
}
