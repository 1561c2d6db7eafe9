package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find gives the path of an Envoy binary that may be run, fetching it when the
// machine has none. The error is one line that says what to do.
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
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "envoy")
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

// cacheDir is where the fetched binary is kept between runs.
func cacheDir() (string, error) {
	root := os.Getenv("SWITCHYARD_CACHE")
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the cache folder: %w (set SWITCHYARD_CACHE)", err)
		}
		root = filepath.Join(base, "switchyard")
	}
	return filepath.Join(root, "envoy", release), nil
}
