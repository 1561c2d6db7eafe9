// Package listed packs images of files of this machine, by tools/image, for tests and
// demonstrations on a node.
package listed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tools/cache"
)

// Image is an image of files of this machine, as tools/image reads it.
type Image struct {
	// Name is that of its archive, Reference its own.
	Name, Reference string
	// Root is an archive with a whole file system, below the files; empty: there is none.
	Root string
	// Files is the content of the image. The libraries of programs are added.
	Files []File
	// Entrypoint is the command of the image, and User the uid:gid that it runs as.
	Entrypoint []string
	User       string
}

// File is a file of an image: where it is on this machine and in the image.
type File struct{ Host, Path string }

// Pack packs images that have changed, and returns the archives of all, which are kept in a
// directory of the cache named after purpose. root is the directory of this repository.
func Pack(ctx context.Context, root, purpose string, images []Image) (archives []string, err error) {
	folder := filepath.Join(cache.Dir(), "images", purpose)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	content, err := json.Marshal(images)
	if err != nil {
		return nil, err
	}
	list, err := os.CreateTemp("", "switchyard-images-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(list.Name())) }()
	if _, err := list.Write(content); err != nil {
		return nil, errors.Join(err, list.Close())
	}
	if err := list.Close(); err != nil {
		return nil, err
	}
	pack := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(root, "tools", "image"), ".", "--out", folder, "--listed", list.Name())
	pack.Stdout, pack.Stderr = os.Stdout, os.Stderr
	if err := pack.Run(); err != nil {
		return nil, fmt.Errorf("pack images of %s: %w", purpose, err)
	}
	for _, i := range images {
		archives = append(archives, filepath.Join(folder, i.Name+".tar"))
	}
	return archives, nil
}
