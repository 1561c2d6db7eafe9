// Command envoy-path prints the path of an Envoy binary that may be run, and
// fetches it first when the machine has none.
package main

import (
	"context"

	"switchyard.dev/tools/cache"
	"switchyard.dev/tools/envoy"
)

func main() { cache.Main(find) }

func find(ctx context.Context) ([]string, error) {
	path, err := envoy.Find(ctx)
	return []string{path}, err
}
