// Package pinned compiles third-party programs into the cache, of exactly the versions in a
// separate go.mod.
//
// It compiles the tools that the go.mod names. The cache key is made from the pins and the version
// of Go, so that a changed pin never uses an old program. The modules are downloaded through the Go
// proxy.
package pinned

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"switchyard.dev/tools/cache"
)

// Module is a folder with a go.mod and a go.sum that name tools.
type Module struct {
	// Name is the name in messages: "Argo Rollouts".
	Name string
	// Folder is where its go.mod and go.sum are.
	Folder string
	// Cache is the folder of the cache in which its programs are kept.
	Cache string
	// Tools are those that are compiled, by import path; empty means all.
	Tools []string
	// Tags are the build tags, joined by commas, and Stamp what the linker writes into
	// variables, each as package.name=value.
	Tags  string
	Stamp []string
}

// Programs returns the folder with the programs, each under the last word of its import
// path, and compiles them first when the cache has none of these pins.
func (m Module) Programs(ctx context.Context) (string, error) {
	name, err := m.hash()
	if err != nil {
		return "", err
	}
	return cache.Folder(filepath.Join(m.Cache, name), func(half string) error {
		if err := m.build(ctx, "-ldflags="+m.link(), "-o", half+string(filepath.Separator)); err != nil {
			return fmt.Errorf("compile %s: %w", m.Name, err)
		}
		return nil
	})
}

// Source returns the folder with the source of one of the modules that the go.mod requires.
func (m Module) Source(ctx context.Context, module string) (string, error) {
	source, err := m.command(ctx, "list", "-m", "-f", "{{.Dir}}", module)
	if err == nil && source == "" { // The module is not in the module cache yet.
		if _, err = m.command(ctx, "mod", "download", module); err == nil {
			source, err = m.command(ctx, "list", "-m", "-f", "{{.Dir}}", module)
		}
	}
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w", m.Name, err)
	}
	return source, nil
}

// tools returns what go build is to compile.
func (m Module) tools() []string {
	if len(m.Tools) == 0 {
		return []string{"tool"}
	}
	return m.Tools
}

// link returns the linker flags: no debug tables, and the values to set.
func (m Module) link() string {
	args := "-s -w"
	for _, s := range m.Stamp {
		args += " -X " + s
	}
	return args
}

// hash returns the cache key for the pins.
func (m Module) hash() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if len(m.Tags) > 0 || len(m.Stamp) > 0 {
		fmt.Fprintln(h, m.Tags, m.Stamp)
	}
	if len(m.Tools) > 0 {
		fmt.Fprintln(h, m.Tools)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(m.Folder, name))
		if err != nil {
			return "", fmt.Errorf("read the pins of %s: %w", m.Name, err)
		}
		h.Write(content)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// command runs the go command and returns its output.
func (m Module) command(ctx context.Context, args ...string) (string, error) {
	var out, wrong bytes.Buffer
	c := m.goes(ctx, args...)
	c.Stdout, c.Stderr = &out, &wrong
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, wrong.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// goes returns the go command in the module's folder.
func (m Module) goes(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = m.Folder
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	return c
}
