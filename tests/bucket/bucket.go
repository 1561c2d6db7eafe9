// Package bucket has a bucket of a real MinIO for tests, or a folder where MinIO is not to be compiled.
package bucket

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"switchyard.dev/tests/port"
	"switchyard.dev/tests/selfsigned"
	miniotool "switchyard.dev/tools/minio"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/results"
)

// Name is that of the bucket.
const Name = "jobs"

// The credentials of the server.
const user, password = "administrator", "a-password"

// Kept returns a place for what jobs leave: with ALL in the environment a bucket, otherwise a folder.
func Kept(t testing.TB) *results.Kept {
	t.Helper()
	c := results.Config{Folder: t.TempDir()}
	if os.Getenv("ALL") != "" {
		endpoint, _ := Server(t)
		c = results.Config{S3: results.S3{Bucket: Name, Endpoint: endpoint}}
	}
	k, err := results.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// root returns the folder of the repository, above that of the test.
func root(t testing.TB) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "tools", "minio")); missing == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("the test does not run in the repository")
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal(err)
	return ""
}

// Server starts MinIO with one bucket until the test ends, and returns its URL and a client. The environment of the test has the
// credentials and its certificate. Without ALL the test is skipped.
func Server(t testing.TB) (string, *minio.Client) {
	t.Helper()
	return ServerIn(t, filepath.Join(t.TempDir(), "data"))
}

// ServerIn is Server with its data in a folder.
func ServerIn(t testing.TB, data string) (string, *minio.Client) {
	t.Helper()
	if os.Getenv("ALL") == "" {
		t.Skip("make test-all runs it: MinIO is compiled the first time, which takes five minutes")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", user)
	t.Setenv("AWS_SECRET_ACCESS_KEY", password)
	dir := t.TempDir()
	program, err := miniotool.Find(t.Context(), root(t))
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port.Of(t))
	pair, err := selfsigned.New("s3.local", net.IPv4(127, 0, 0, 1))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "public.crt"), pair.Cert, 0o600), os.WriteFile(filepath.Join(dir, "private.key"), pair.Key, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("S3_CA", string(pair.Cert))
	var log bytes.Buffer
	run := exec.CommandContext(t.Context(), program, "server", "--address", address, "--certs-dir", dir, "--quiet", data)
	run.Env = append(os.Environ(), "MINIO_ROOT_USER="+user, "MINIO_ROOT_PASSWORD="+password, "MINIO_BROWSER=off", "MINIO_UPDATE=off", "HOME="+dir)
	run.Stdout, run.Stderr = &log, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Wait() }) // the context of the test has ended it
	transport, err := minio.DefaultTransport(true)
	if err != nil {
		t.Fatal(err)
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pair.Cert)
	t.Cleanup(transport.CloseIdleConnections)
	wait.Eventually(t, 2*time.Minute, "MinIO starts", func() error {
		answer, err := (&http.Client{Transport: transport}).Get("https://" + address + "/minio/health/cluster") //nolint:noctx // A test.
		if err != nil {
			return err
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
	c, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(user, password, ""), Secure: true, Transport: transport})
	if err == nil {
		err = c.MakeBucket(t.Context(), Name, minio.MakeBucketOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return "https://" + address, c
}
