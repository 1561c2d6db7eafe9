package samples

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"switchyard.dev/tools/cache"
)

// System returns a folder with the file system that the images have in common, for what runs
// it without a container runtime. Nobody may write there. Folders to be mounted over, which a
// runtime makes by itself, are made where mounts say, as /path.
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
