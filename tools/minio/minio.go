// Package minio has MinIO, a server of the S3 API, on this machine, for tests of buckets.
package minio

import (
	"context"
	"path/filepath"

	"switchyard.dev/tools/pinned"
)

// Find returns the path of the server's program. It compiles MinIO first if the cache has none of the pinned version.
// root is the directory of this repository.
func Find(ctx context.Context, root string) (string, error) {
	programs, err := pinned.Module{Name: "MinIO", Folder: filepath.Join(root, "tools", "minio", "pinned"), Cache: "minio"}.Programs(ctx)
	return filepath.Join(programs, "minio"), err
}
