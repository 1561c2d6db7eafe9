package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tools/cache"
)

// Find returns the path of an executable Envoy binary. It downloads one when the machine has none.
// The error is one line that names the remedy.
func Find(ctx context.Context) (string, error) {
	if path := os.Getenv("ENVOY"); path != "" {
		if err := check(ctx, path); err != nil {
			return "", fmt.Errorf("the environment variable ENVOY names an Envoy that will not do: %w", err)
		}
		return path, nil
	}
	if path, err := exec.LookPath("envoy"); err == nil && check(ctx, path) == nil {
		return path, nil
	}
	path := filepath.Join(cache.Dir(), "envoy", release, "envoy")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("look for Envoy in the cache: %w", err)
	}
	if err := fetch(ctx, path); err != nil {
		return "", fmt.Errorf("get Envoy %s: %w (set ENVOY to the path of a binary to use another)", release, err)
	}
	return path, nil
}
