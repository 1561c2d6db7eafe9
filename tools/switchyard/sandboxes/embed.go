package sandboxes

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"switchyard.dev/workflows/specfile"
)

// embedded reads a file that a specification in a folder embeds, by its path from there. Symbolic
// links are followed, and their target has to be below that folder or one of
// --embed-root: the author of a specification may be another user than the one that applies it.
func (in *input) embedded(folder, path string) ([]byte, error) {
	at, err := resolved(filepath.Join(folder, path))
	if err != nil {
		return nil, err
	}
	for _, root := range append([]string{folder}, in.roots...) {
		whole, err := resolved(root)
		if err != nil {
			continue // A root that does not exist contains no file.
		}
		if below, err := filepath.Rel(whole, at); err == nil && filepath.IsLocal(below) {
			return readBelow(whole, below)
		}
	}
	allowed := strings.Join(append([]string{folder}, in.roots...), ", ")
	return nil, fmt.Errorf("%s is outside of %s: move it there, or give --embed-root with a folder that contains it and that you let the file read", at, allowed)
}

// resolved returns the absolute path of a file without symbolic links.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// readBelow reads a regular file below a folder, even if a link has replaced part of the path since
// it was checked.
func readBelow(folder, path string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // Opening a pipe would wait for its writer.
		return nil, fmt.Errorf("%s is no regular file", filepath.Join(folder, path))
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, specfile.MaxBytes+1))
}
