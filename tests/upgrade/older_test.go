package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"switchyard.dev/tools/cache"
)

// older is the commit that represents an older release: the last one before the second security
// review. It keeps values of units in the operator's namespace, signs no grants for pods of units,
// records no authors, and has the earlier defaults. So the upgrade changes rights, definitions,
// admission policies, and where values are.
const older = "a6a2cfd50b47675b4fd4d5aa6a2a6b1fe739f7e2"

// olderTag is the tag of its images.
const olderTag = "older"

// olderImages are those that its chart installs, and that its manager puts into pods.
const olderImages = "controller-manager,eventbus,route-server,route-sidecar-init,route-sidecar," +
	"io-context-server,io-init,io-sidecar,tunnel-api,tunnel-proxy"

// olderDir is where its tree and its images are kept: they never change.
func olderDir() string { return filepath.Join(cache.Dir(), "upgrade", older) }

// olderChart is the folder of its chart.
func olderChart() string { return filepath.Join(olderDir(), "tree", "charts", "operator") }

// buildOlder unpacks the older release out of the history of the repository at root and
// packs its images, once, and returns the archives.
func buildOlder(ctx context.Context, root string) ([]string, error) {
	done := filepath.Join(olderDir(), "done")
	if _, err := os.Stat(done); errors.Is(err, os.ErrNotExist) {
		if err := unpackOlder(ctx, root); err != nil {
			return nil, err
		}
		pack := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(olderDir(), "tree", "tools", "image"), ".",
			"--out", filepath.Join(olderDir(), "images"), "--tag", olderTag, "--only", olderImages)
		pack.Stdout, pack.Stderr = os.Stdout, os.Stderr
		if err := pack.Run(); err != nil {
			return nil, fmt.Errorf("pack the images of commit %.12s: %w", older, err)
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			return nil, err
		}
	}
	return filepath.Glob(filepath.Join(olderDir(), "images", "*.tar"))
}

// unpackOlder writes the tree of the older release down.
func unpackOlder(ctx context.Context, root string) error {
	if out, err := exec.CommandContext(ctx, "git", "-C", root, "cat-file", "-e", older+"^{commit}").CombinedOutput(); err != nil {
		return fmt.Errorf("this clone does not have commit %s, the older release that is upgraded from (%s): "+
			"get it with `git fetch --unshallow`, or `git fetch origin %s`", older, strings.TrimSpace(string(out)), older)
	}
	tree := filepath.Join(olderDir(), "tree")
	if err := errors.Join(os.RemoveAll(tree), os.MkdirAll(tree, 0o755)); err != nil {
		return err
	}
	archive := exec.CommandContext(ctx, "git", "-C", root, "archive", older)
	unpack := exec.CommandContext(ctx, "tar", "-x", "-C", tree)
	var err error
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return err
	}
	archive.Stderr, unpack.Stderr = os.Stderr, os.Stderr
	if err := unpack.Start(); err != nil {
		return err
	}
	if err := errors.Join(archive.Run(), unpack.Wait()); err != nil {
		return fmt.Errorf("unpack commit %.12s: %w", older, err)
	}
	return nil
}
