// Package library finds the shared libraries that a dynamically linked program
// needs, on this machine, so that they can be packed beside it.
package library

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// File is a file to pack: where it stands on this machine and where the program
// will look for it.
type File struct {
	Host, Path string
}

// folders are where libraries stand, by machine: Debian's and its kin's.
var folders = map[elf.Machine]string{
	elf.EM_X86_64:  "/lib/x86_64-linux-gnu",
	elf.EM_AARCH64: "/lib/aarch64-linux-gnu",
}

// Needed returns the loader and the libraries of a program, sorted by path, and verifies that they
// have the required symbol versions. A static program needs none. The error names the missing files
// or versions.
func Needed(program string) ([]File, error) {
	file, err := elf.Open(program)
	if err != nil {
		return nil, fmt.Errorf("%s is not a Linux program: %w", program, err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	loader := interpreter(file)
	if loader == "" {
		return nil, nil
	}
	folder, known := folders[file.Machine]
	if !known {
		return nil, fmt.Errorf("%s is for %s, an architecture that this tool does not support", program, file.Machine)
	}
	found := map[string]File{filepath.Base(loader): {Host: loader, Path: loader}}
	if err := follow(program, folder, found); err != nil {
		return nil, err
	}
	files := make([]File, 0, len(found))
	for _, f := range found {
		if f.Host, err = filepath.EvalSymlinks(f.Host); err != nil {
			return nil, lacking(f.Path, program, err)
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	return files, nil
}

// interpreter is the path of the program's loader, empty for a static one.
func interpreter(file *elf.File) string {
	for _, p := range file.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		path := make([]byte, p.Filesz)
		if _, err := p.ReadAt(path, 0); err == nil {
			return string(bytes.TrimRight(path, "\x00"))
		}
	}
	return ""
}

// follow adds what a file needs, and what that needs.
func follow(path, folder string, found map[string]File) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	names, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range names {
		if _, done := found[name]; done {
			continue
		}
		library := filepath.Join(folder, name)
		if _, err := os.Stat(library); err != nil {
			return lacking(library, path, err)
		}
		found[name] = File{Host: library, Path: library}
		if err := follow(library, folder, found); err != nil {
			return err
		}
	}
	return versions(file, path, found)
}

// versions checks that the libraries define the symbol versions a file imports.
func versions(file *elf.File, path string, found map[string]File) error {
	needs, err := file.DynamicVersionNeeds()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, need := range needs {
		library, err := elf.Open(found[need.Name].Host)
		if err != nil {
			return lacking(need.Name, path, err)
		}
		defined, err := library.DynamicVersions()
		if err = errors.Join(err, library.Close()); err != nil {
			return fmt.Errorf("%s: %w", need.Name, err)
		}
		for _, want := range need.Needs {
			if !slices.ContainsFunc(defined, func(v elf.DynamicVersion) bool { return v.Name == want.Dep }) {
				return lacking(need.Name+" with "+want.Dep, path, errors.New("the one here is older"))
			}
		}
	}
	return nil
}

func lacking(what, by string, err error) error {
	return fmt.Errorf("this machine lacks %s, which %s needs: pack on Debian 12 or with a C library at least as new (glibc 2.31): %w",
		what, by, err)
}
