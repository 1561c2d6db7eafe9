// Command samples-path prints where the file system of the samples' images is, a small Debian;
// it is fetched and unpacked first when that was not done yet.
package main

import (
	"context"

	"switchyard.dev/tools/cache"
	"switchyard.dev/tools/samples"
)

func main() { cache.Main(find) }

func find(ctx context.Context) ([]string, error) {
	folder, err := samples.System(ctx)
	return []string{folder}, err
}
