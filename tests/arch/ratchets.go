package arch

import (
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxPackageLines is how many code lines a package may have. More are two packages.
const maxPackageLines = 1500

// roomLines is how many code lines the hand-written Go of a component may have, tests not
// counted: its size when an issue was resolved, with five percent of headroom. A figure changes
// at most once in an issue, in the commit that closes it, with the reason.
var roomLines = map[string]int{
	"controlplane-link": 3450,
	controlPlane:        11500,
	previews:            3650,
	"eventbus":          11500,
	"protos":            1800,
	"reconcilers":       38800,
	"routeserver":       8500,
	"sidecars":          12450,
	"tests":             47500,
	"tools":             7600,
	commandLine:         12600,
	"tunnels":           14300,
	"workflows":         17900,
	"xds":               4300,
}

// controlPlane and its program are counted apart from the component that they are in.
const (
	controlPlane        = "controlplane-link/controlplane"
	controlPlaneProgram = "controlplane-link/cmd/controlplane"
)

// previews and the page, with its templates, style and script, are counted apart from the components that they are in.
const previews = "controlplane-link/preview"

var previewFolders = []string{previews, "controlplane-link/certificates", "controlplane-link/web", "routeserver/page"}

// apart returns the room of a folder that is counted apart from its component; false: it is not.
func apart(dir string) (string, bool) {
	within := func(of string) bool { return strings.HasPrefix(dir+"/", of+"/") }
	switch {
	case within(controlPlane), dir == controlPlaneProgram:
		return controlPlane, true
	case slices.ContainsFunc(previewFolders, within):
		return previews, true
	}
	return "", false
}

// Counted is the code lines of a folder's files.
type Counted struct {
	// Product is the size of hand-written Go without tests, Tests that of _test.go files.
	Product, Tests int
}

// Count returns the code lines by package, as a path relative to root. A code line holds at
// least one token: neither blank lines nor comments count, nor do generated files.
func Count(root string, files []File) (map[string]Counted, error) {
	counted := map[string]Counted{}
	for _, f := range files {
		if f.Generated() {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.Path)))
		if err != nil {
			return nil, err
		}
		c := counted[f.Dir()]
		if f.Test() {
			c.Tests += codeLines(source)
		} else {
			c.Product += codeLines(source)
		}
		counted[f.Dir()] = c
	}
	return counted, countPages(root, counted)
}

// countPages adds the lines of the page's templates, style and script that are not empty.
func countPages(root string, counted map[string]Counted) error {
	for _, folder := range previewFolders {
		for _, kind := range []string{"html", "css", "js"} {
			files, err := filepath.Glob(filepath.Join(root, folder, "*."+kind))
			below, other := filepath.Glob(filepath.Join(root, folder, "*", "*."+kind))
			if err := errors.Join(err, other); err != nil {
				return err
			}
			for _, path := range append(files, below...) {
				source, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				c := counted[folder]
				for line := range strings.Lines(string(source)) {
					if strings.TrimSpace(line) != "" {
						c.Product++
					}
				}
				counted[folder] = c
			}
		}
	}
	return nil
}

// codeLines returns how many lines of a source file hold a token. A literal over several
// lines counts with each of them.
func codeLines(source []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := file.Line(pos)
		for i := range strings.Count(literal, "\n") + 1 {
			lines[first+i] = true
		}
	}
}

// ByRoom adds up the packages of each room.
func ByRoom(counted map[string]Counted) map[string]Counted {
	rooms := map[string]Counted{}
	for dir, c := range counted {
		room, is := apart(dir)
		if !is {
			room = roomOf(dir)
		}
		sum := rooms[room]
		sum.Product += c.Product
		sum.Tests += c.Tests
		rooms[room] = sum
	}
	return rooms
}

// Large reports packages with more code lines than one package may have.
func Large(counted map[string]Counted) []string {
	var broken []string
	for _, dir := range slices.Sorted(maps.Keys(counted)) {
		if n := counted[dir].Product; n > maxPackageLines {
			broken = append(broken, fmt.Sprintf("package %s has %d code lines; at most %d: make two of it", dir, n, maxPackageLines))
		}
	}
	return broken
}

// Grown reports components that have more code lines than limits allows them, or a tenth fewer.
func Grown(counted map[string]Counted, limits map[string]int) []string {
	var broken []string
	rooms := ByRoom(counted)
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		switch n, limit := rooms[room].Product, limits[room]; {
		case n > limit:
			broken = append(broken, fmt.Sprintf("%s has %d code lines; at most %d: find what to remove, or raise roomLines in the commit that closes the issue, with the reason", room, n, limit))
		case n < limit-limit/10:
			broken = append(broken, fmt.Sprintf("%s has %d code lines, %d fewer than it may have: lower roomLines when the issue is closed", room, n, limit-n))
		}
	}
	return broken
}
