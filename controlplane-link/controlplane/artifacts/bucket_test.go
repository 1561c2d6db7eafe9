package artifacts_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"switchyard.dev/controlplane-link/controlplane/artifacts"
	"switchyard.dev/tests/port"
	miniotool "switchyard.dev/tools/minio"
	"switchyard.dev/tools/wait"
)

// The credentials of the server.
const user, password = "administrator", "a-password"

// server starts MinIO with one bucket, and returns its URL and a client.
func server(t *testing.T) (string, *minio.Client) {
	t.Helper()
	if os.Getenv("ALL") == "" {
		t.Skip("make test-all runs it: MinIO is compiled the first time, which takes five minutes")
	}
	dir := t.TempDir()
	program, err := miniotool.Find(t.Context(), "../../..")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port.Of(t))
	var log bytes.Buffer
	run := exec.CommandContext(t.Context(), program, "server", "--address", address, "--quiet", filepath.Join(dir, "data"))
	run.Env = append(os.Environ(), "MINIO_ROOT_USER="+user, "MINIO_ROOT_PASSWORD="+password, "MINIO_BROWSER=off", "MINIO_UPDATE=off", "HOME="+dir)
	run.Stdout, run.Stderr = &log, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Wait() }) // the context of the test has ended it
	wait.Eventually(t, 2*time.Minute, "MinIO starts", func() error {
		answer, err := http.Get("http://" + address + "/minio/health/cluster") //nolint:noctx // A test.
		if err != nil {
			return err
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
	c, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(user, password, "")})
	if err == nil {
		err = c.MakeBucket(t.Context(), "jobs", minio.MakeBucketOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + address, c
}

// A bucket of MinIO keeps what a folder keeps.
func TestABucketKeepsFiles(t *testing.T) {
	endpoint, client := server(t)
	t.Setenv("AWS_ACCESS_KEY_ID", user)
	t.Setenv("AWS_SECRET_ACCESS_KEY", password)
	open := func(bucket string) *artifacts.Kept {
		k, err := artifacts.Open(t.Context(), artifacts.Config{S3: artifacts.S3{Bucket: bucket, Endpoint: endpoint}, Limits: artifacts.Limits{Files: 7}})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := open("jobs")
	if k.Limits != (artifacts.Limits{File: 1 << 30, Job: 2 << 30, Files: 7}) {
		t.Errorf("limits %+v", k.Limits)
	}
	left := func() (names []string) {
		for o := range client.ListObjectsIter(t.Context(), "jobs", minio.ListObjectsOptions{Recursive: true}) {
			names = append(names, o.Key)
		}
		for o := range client.ListIncompleteUploads(t.Context(), "jobs", "", true) {
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
		broken, f := errors.New("the runner has gone"), artifacts.File{Path: "a", Space: artifacts.User}
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
		none, f := open("none"), artifacts.File{Path: "a", Space: artifacts.User}
		if err := none.Put(t.Context(), "acme", "j", &f, writes("x")); err == nil || !strings.Contains(err.Error(), "bucket none") {
			t.Errorf("%v", err)
		}
		if m, err := none.Manifest(t.Context(), "acme", "j"); err == nil {
			t.Errorf("a missing bucket is a job without a manifest: %v", m)
		}
	})
	t.Run("an endpoint that is none", func(t *testing.T) {
		for _, at := range []string{"s3.local", "ftp://s3.local", "http://s3.local/path"} {
			if _, err := artifacts.Open(t.Context(), artifacts.Config{S3: artifacts.S3{Bucket: "jobs", Endpoint: at}}); err == nil || !strings.Contains(err.Error(), at) {
				t.Errorf("%s: %v", at, err)
			}
		}
		if _, err := artifacts.Open(t.Context(), artifacts.Config{Folder: t.TempDir(), S3: artifacts.S3{Bucket: "jobs"}}); err == nil {
			t.Error("a folder and a bucket")
		}
	})
}

// parts stores a file of 40 MiB.
func parts(t *testing.T, k *artifacts.Kept) {
	content, f := make([]byte, 40<<20), artifacts.File{Path: "a", Space: artifacts.User}
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
