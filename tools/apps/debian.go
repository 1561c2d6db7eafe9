package apps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"switchyard.dev/tools/cache"
)

// packages are Debian's; the libraries that the machine lacks for them come with them.
var packages = []string{"nginx", "nghttp2-server", "redis-server"}

// debian downloads the packages and unpacks them. None is installed: no service
// starts, and the machine stays as it is.
func debian(ctx context.Context) (string, error) {
	return cache.Folder("apps/debian-"+mark(), func(half string) error {
		if err := download(ctx, half); err != nil {
			return fmt.Errorf("download %s from Debian: %w", strings.Join(packages, ", "), err)
		}
		archives, err := filepath.Glob(filepath.Join(half, "*.deb"))
		if err != nil {
			return err
		}
		for _, archive := range archives {
			if err := errors.Join(run(ctx, "dpkg", "-x", archive, half), os.Remove(archive)); err != nil {
				return err
			}
		}
		return nil
	})
}

// mark names what the folder holds: other packages, another release or machine have
// another one.
func mark() string {
	release, _ := os.ReadFile("/etc/os-release") // without one, the packages alone are the key
	sum := sha256.Sum256([]byte(strings.Join(packages, " ") + runtime.GOARCH + string(release)))
	return hex.EncodeToString(sum[:6])
}

// download downloads the packages, and their dependencies that this machine lacks, into a
// directory. The package index is updated only if the current one is not sufficient.
func download(ctx context.Context, to string) error {
	if err := os.Mkdir(filepath.Join(to, "partial"), 0o700); err != nil {
		return err
	}
	install := append([]string{
		"install", "--yes", "--reinstall", "--download-only", "--no-install-recommends",
		"-o", "Dir::Cache::Archives=" + to, "-o", "APT::Sandbox::User=root",
	}, packages...)
	if run(ctx, "apt-get", install...) == nil {
		return nil
	}
	return errors.Join(run(ctx, "apt-get", "update"), run(ctx, "apt-get", install...))
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
