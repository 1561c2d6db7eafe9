// Command argo-path prints the path of the controller of Argo Rollouts, and compiles
// it first when that was not done yet. It is run in the root of the repository.
package main

import (
	"context"

	"switchyard.dev/tools/argo"
	"switchyard.dev/tools/cache"
)

func main() { cache.Main(find) }

func find(ctx context.Context) ([]string, error) {
	a, err := argo.Find(ctx, ".")
	return []string{a.Controller}, err
}
