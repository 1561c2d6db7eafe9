// Package cache locates the directory for built and downloaded files, which are kept between runs,
// outside of the repository.
package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// Dir is $SWITCHYARD_CACHE, or the folder switchyard in the user's cache
// folder, or in /var/cache for a user without one.
func Dir() string {
	if dir := os.Getenv("SWITCHYARD_CACHE"); dir != "" {
		return dir
	}
	user, err := os.UserCacheDir()
	if err != nil {
		user = "/var/cache"
	}
	return filepath.Join(user, "switchyard")
}

// Folder returns a directory of the cache by name. If it does not exist, fill fills a temporary
// one, which is then renamed, so that an incomplete directory is never visible.
func Folder(name string, fill func(half string) error) (folder string, err error) {
	folder = filepath.Join(Dir(), name)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("look into the cache: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", fmt.Errorf("make room in the cache: %w", err)
	}
	half, err := os.MkdirTemp(filepath.Dir(folder), ".half-")
	if err != nil {
		return "", fmt.Errorf("make room in the cache: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(half)) }()
	if err := errors.Join(os.Chmod(half, 0o755), fill(half)); err != nil {
		return "", err
	}
	if err := os.Rename(half, folder); err != nil {
		if _, absent := os.Stat(folder); absent != nil { // not filled by another process in the meantime
			return "", fmt.Errorf("name what was put into the cache: %w", err)
		}
	}
	return folder, nil
}

// Main is the main function of a program that prints where cached files are, a path a line. find creates those that are
// missing.
func Main(find func(context.Context) (paths []string, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	paths, err := find(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(paths, "\n"))
}
