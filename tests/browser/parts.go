package browser

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tools/cache"
)

// Program is the browser: that of Debian's package.
const program = "/usr/bin/chromium"

// packages are those of Debian: the browser, and a font for its pages.
var packages = []string{"chromium", "fonts-dejavu-core"}

// ErrNone is the error of machines without a browser.
var ErrNone = errors.New("there is no Chromium: run `make parts` as root, or apt-get install chromium fonts-dejavu-core")

// Installed returns ErrNone if this machine has no browser.
func Installed() error {
	if _, err := os.Stat(program); err != nil {
		return ErrNone
	}
	return nil
}

// Prepare installs the browser from Debian, if it is missing, and fetches what Start and Axe need.
func Prepare(ctx context.Context) error {
	if Installed() != nil {
		for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)} {
			if out, err := exec.CommandContext(ctx, "apt-get", args...).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: apt-get %s: %w: %s", ErrNone, args[0], err, out)
			}
		}
	}
	_, err := Axe(ctx)
	if err == nil {
		_, err = driver(ctx)
	}
	return err
}

// driver builds the driver, and returns its path.
func driver(ctx context.Context) (string, error) {
	root, err := crd.Root()
	if err != nil {
		return "", err
	}
	to := filepath.Join(cache.Dir(), "tools", "browser-driver")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "tests/browser/driver"), "-trimpath", "-o", to, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the driver of the browser: %w: %s", err, out)
	}
	return to, nil
}

// axe is axe-core, under the licence MPL 2.0.
var axe = Script{"axe-core@4.14.1", "axe.min.js", "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"}

// Axe returns the script of axe-core, which checks the accessibility of pages.
func Axe(ctx context.Context) (string, error) {
	path, err := axe.Fetch(ctx)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// Script is a file of a package of the npm registry, with its SHA-256.
type Script struct{ Package, File, Sum string }

// Fetch fetches the package with npm, unless it is in the cache, and returns the path of the file.
func (s Script) Fetch(ctx context.Context) (string, error) {
	folder, err := cache.Folder("npm/"+s.Package, func(half string) error {
		for _, argv := range [][]string{{"npm", "pack", "--silent", s.Package}, {"sh", "-c", "tar xzf *.tgz --strip-components=1 && rm *.tgz"}} {
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Dir = half
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("fetch %s with npm: %w: %s", s.Package, err, out)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, s.File)
	text, err := os.ReadFile(path)
	if sum := sha256.Sum256(text); err == nil && hex.EncodeToString(sum[:]) != s.Sum {
		err = fmt.Errorf("%s is not the file that was pinned: delete the folder %s", path, folder)
	}
	return path, err
}
