// Command apps-path prints where the applications for tests are, and makes those ready
// that are not yet. It is run in the root of the repository.
package main

import (
	"context"

	"switchyard.dev/tools/apps"
	"switchyard.dev/tools/cache"
)

func main() { cache.Main(find) }

func find(ctx context.Context) ([]string, error) {
	a, err := apps.Find(ctx, ".")
	return []string{a.Compiled, a.Unpacked}, err
}
