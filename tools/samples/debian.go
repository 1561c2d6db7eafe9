package samples

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
	"slices"
	"strings"

	"switchyard.dev/tools/cache"
)

// release is Debian's, and packages are those beside what every Debian has.
const release = "bookworm"

var packages = []string{"ca-certificates", "curl", "postgresql-15", "python3", "redis-server"}

// leftOut is what nothing here reads: a third of all. PostgreSQL goes without its compiler
// (jit=off).
var leftOut = []string{
	"/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*",
	"/usr/lib/*/libLLVM*", "/usr/lib/postgresql/*/lib/bitcode/*",
}

// debian returns an archive with a file system of Debian, which is made when the cache has
// none.
func debian(ctx context.Context) (string, error) {
	args := []string{"--variant=essential", "--mode=root", "--include=" + strings.Join(packages, ",")}
	for _, path := range leftOut {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	// The database that the package makes; its servers here make their own.
	args = append(args, `--customize-hook=rm -rf "$1"/var/lib/postgresql/15 "$1"/etc/postgresql/15`, release)
	sum := sha256.Sum256([]byte(strings.Join(args, " ") + runtime.GOARCH))
	folder, err := cache.Folder("samples/debian-"+hex.EncodeToString(sum[:6]), func(half string) error {
		fmt.Fprintln(os.Stderr, "      a small Debian is fetched and unpacked (about two minutes)")
		if _, err := exec.LookPath("mmdebstrap"); err != nil {
			if err := errors.Join(run(ctx, "apt-get", "update", "-qq"), run(ctx, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "mmdebstrap")); err != nil {
				return fmt.Errorf("install mmdebstrap, which unpacks Debian: %w", err)
			}
		}
		return run(ctx, "mmdebstrap", append(slices.Clone(args), filepath.Join(half, "root.tar"))...)
	})
	return filepath.Join(folder, "root.tar"), err
}

func run(ctx context.Context, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0") // So that equal packages make an equal archive.
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
