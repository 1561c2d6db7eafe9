package build

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"switchyard.dev/tools/image/library"
	"switchyard.dev/tools/image/pack"
)

// Listed is an image that is not in the catalog, since nothing is compiled for it: files of
// this machine.
type Listed struct {
	// Name is that of its archive, Reference its own.
	Name, Reference string
	// Root is an archive with a whole file system, below the files; empty: there is none.
	Root string
	// Files is the content of the image. The libraries of programs are added.
	Files []pack.File
	// Entrypoint is the command of the image, and User the uid:gid that it runs as.
	Entrypoint []string
	User       string
}

// ReadListed reads a file that lists images, in JSON.
func ReadListed(path string) ([]Listed, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Listed
	if err := json.Unmarshal(content, &out); err != nil {
		return nil, fmt.Errorf("read the images that %s lists: %w", path, err)
	}
	return out, nil
}

// spec adds the libraries of programs.
func (l Listed) spec(context.Context) (pack.Spec, error) {
	s := pack.Spec{Root: l.Root, Files: slices.Clone(l.Files), Entrypoint: l.Entrypoint, User: l.User, Architecture: runtime.GOARCH}
	for _, f := range l.Files {
		needed, err := library.Needed(f.Host)
		if _, other := errors.AsType[*elf.FormatError](err); other {
			continue // not a program
		}
		if err != nil {
			return pack.Spec{}, err
		}
		for _, n := range needed {
			if at := (pack.File{Host: n.Host, Path: n.Path}); !slices.Contains(s.Files, at) {
				s.Files = append(s.Files, at)
			}
		}
	}
	return s, nil
}
