package samples

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"switchyard.dev/tools/cache"
)

// System returns a directory with the file system that the images have in common, for tests that
// run it without a container runtime. It is shared: do not write there. Mount points, which a
// runtime would create, are created for mounts, as /path.
func System(ctx context.Context, mounts ...string) (string, error) {
	archive, err := debian(ctx)
	if err != nil {
		return "", err
	}
	folder, err := cache.Folder("samples/system-"+filepath.Base(filepath.Dir(archive)), func(half string) error {
		return run(ctx, "tar", "-C", half, "-xf", archive, "--exclude=./dev/*")
	})
	for _, path := range mounts {
		err = errors.Join(err, os.MkdirAll(filepath.Join(folder, path), 0o755))
	}
	return folder, err
}
