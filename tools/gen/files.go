package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files is generated content by path, relative to the root of the repository,
// with forward slashes.
type Files map[string][]byte

// merge adds other's files; two generators that write the same file are a
// mistake in the generators.
func (f Files) merge(other Files) error {
	for path, content := range other {
		if _, taken := f[path]; taken {
			return fmt.Errorf("two generators write %s; give one of them another output path", path)
		}
		f[path] = content
	}
	return nil
}

// owned reports whether this program alone writes the file, so that one which is
// there but is no longer generated has to go.
func owned(path string) bool {
	switch {
	case strings.HasPrefix(path, genDir+"/"), path == rulesFile:
		return true
	case strings.HasPrefix(path, crdDir+"/"):
		return strings.HasSuffix(path, ".yaml")
	}
	return strings.HasPrefix(filepath.Base(path), "zz_generated.")
}

// ownedRoots are the folders in which owned files may stand.
var ownedRoots = []string{genDir, crdDir, apiDir, controlPlaneDir, filepath.Dir(rulesFile)}

// change is one file that differs from what it should be. A nil content means
// that the file has to be removed.
type change struct {
	path    string
	content []byte
	exists  bool
}

// what says the change in a word, for people.
func (c change) what() string {
	switch {
	case c.content == nil:
		return "no longer generated"
	case c.exists:
		return "differs"
	}
	return "missing"
}

// changes compares the files with the tree at root, sorted by path.
func (f Files) changes(root string) ([]change, error) {
	var out []change
	for path, want := range f {
		have, err := os.ReadFile(filepath.Join(root, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || !bytes.Equal(have, want) {
			out = append(out, change{path: path, content: want, exists: err == nil})
		}
	}
	gone, err := f.leftovers(root)
	if err != nil {
		return nil, err
	}
	out = append(out, gone...)
	slices.SortFunc(out, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// leftovers finds owned files that nothing generates any more.
func (f Files) leftovers(root string) ([]change, error) {
	var out []change
	for _, dir := range ownedRoots {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			if _, wanted := f[rel]; !wanted && owned(rel) {
				out = append(out, change{path: rel, exists: true})
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return out, nil
}

// apply makes the tree at root what it should be. It says what it did when all
// is done, so that nobody who stops listening stops it halfway.
func apply(root string, changes []change, out io.Writer) error {
	said := "every generated file is fresh\n"
	if len(changes) > 0 {
		said = ""
	}
	for _, c := range changes {
		if err := c.apply(filepath.Join(root, c.path)); err != nil {
			return err
		}
		said += c.done() + " " + c.path + "\n"
	}
	_, err := io.WriteString(out, said)
	return err
}

// apply writes or removes the one file.
func (c change) apply(path string) error {
	if c.content == nil {
		return os.Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, c.content, 0o644)
}

// done says in a word what applying the change does.
func (c change) done() string {
	if c.content == nil {
		return "removed"
	}
	return "wrote"
}
