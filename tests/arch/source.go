package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// module is the main module's path; packages outside it are third-party.
const module = "switchyard.dev"

// File is one parsed Go source file of the repository.
type File struct {
	// Path is relative to the repository's root, with slashes.
	Path   string
	Syntax *ast.File
	fset   *token.FileSet
}

// Dir is the folder of the file, relative to the root: the import path without
// the module.
func (f File) Dir() string { return path.Dir(f.Path) }

// Room is the component of the file: its top-level folder, or commandLine.
func (f File) Room() string { return roomOf(f.Dir()) }

// commandLine is the component of the command line, which is product although it is below tools.
const commandLine = "tools/switchyard"

// roomOf returns the component of a package; dir is relative to the root.
func roomOf(dir string) string {
	for _, of := range []string{commandLine, "tools/cmd/switchyard"} {
		if dir == of || strings.HasPrefix(dir, of+"/") {
			return commandLine
		}
	}
	return strings.SplitN(dir, "/", 2)[0]
}

// Test reports whether the file is a test file.
func (f File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Generated reports whether the file is generated.
func (f File) Generated() bool { return ast.IsGenerated(f.Syntax) }

// Program reports whether a file is of a main package, which connects components and may
// import any.
func (f File) Program() bool { return f.Syntax.Name.Name == "main" }

// Imports lists the import paths.
func (f File) Imports() []string {
	var paths []string
	for _, spec := range f.Syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// Line returns the line number of a position.
func (f File) Line(pos token.Pos) int { return f.fset.Position(pos).Line }

// Lines counts the lines of the file.
func (f File) Lines() int { return f.fset.File(f.Syntax.Pos()).LineCount() }

// Load parses every Go file below root, without dot-folders and testdata.
func Load(root string) ([]File, error) {
	var files []File
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files = append(files, File{Path: filepath.ToSlash(rel), Syntax: syntax, fset: fset})
		return nil
	})
	return files, err
}

// TopLevel lists the visible folders of the repository's root.
func TopLevel(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			dirs = append(dirs, entry.Name())
		}
	}
	return dirs, nil
}
