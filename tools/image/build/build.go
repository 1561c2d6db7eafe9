// Package build compiles the programs of the catalog and packs them.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tools/image/catalog"
	"switchyard.dev/tools/image/library"
	"switchyard.dev/tools/image/pack"
)

// Config selects the images to pack and the output directory.
type Config struct {
	// Out is the folder for the archives. Required.
	Out string
	// Only names the images to pack; empty is all but those of tests.
	Only []string
	// Tests packs those of tests too.
	Tests bool
	// Listed are packed in place of those of the catalog.
	Listed []Listed
	// Registry and Tag make the images' names: REGISTRY/NAME:TAG. Required.
	Registry, Tag string
	// Root is the root of the repository. Default: found from the working folder.
	Root string
	// Cache keeps binaries between runs. Default: the project's cache.
	Cache string
	// Progress receives a line for each image. Default: no output.
	Progress io.Writer
}

// Validate returns an error that describes the first missing or invalid field, or nil.
func (c Config) Validate() error {
	if c.Out == "" {
		return errors.New("name the folder for the archives: --out DIR")
	}
	if c.Registry == "" || c.Tag == "" {
		return errors.New("a registry and a tag make the images' names; neither may be empty")
	}
	var names []string
	for _, image := range catalog.Images() {
		names = append(names, image.Name)
	}
	for _, name := range c.Only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no image is called %q: choose from %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// Run packs the images. It stops at the first that fails; archives written
// until then are whole.
func Run(ctx context.Context, c Config) error {
	if err := c.setDefaults(); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return err
	}
	var err error
	if c.Out, err = filepath.Abs(c.Out); err != nil {
		return err
	}
	for _, dir := range []string{c.Out, c.Cache} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	images := c.images()
	for n, image := range images {
		began := time.Now()
		fmt.Fprintf(c.Progress, "image %d of %d: %-18s ", n+1, len(images), image.name)
		outcome, err := c.one(ctx, image)
		if err != nil {
			fmt.Fprintln(c.Progress, "failed")
			return fmt.Errorf("image %s: %w", image.name, err)
		}
		fmt.Fprintf(c.Progress, "%s (%.1f s)\n", outcome, time.Since(began).Seconds())
	}
	return nil
}

// image is one to pack.
type image struct {
	// name is that of its archive, reference its own.
	name, reference string
	spec            func(context.Context) (pack.Spec, error)
}

// images returns what to pack.
func (c Config) images() []image {
	var out []image
	for _, l := range c.Listed {
		out = append(out, image{l.Name, l.Reference, l.spec})
	}
	if len(out) > 0 {
		return out
	}
	for _, i := range catalog.Images() {
		if len(c.Only) > 0 && !slices.Contains(c.Only, i.Name) || len(c.Only) == 0 && i.Tests && !c.Tests {
			continue
		}
		out = append(out, image{i.Name, c.Registry + "/" + i.Name + ":" + c.Tag, func(ctx context.Context) (pack.Spec, error) { return c.spec(ctx, i) }})
	}
	return out
}

func (c *Config) setDefaults() error {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	if c.Root == "" {
		root, err := findRoot()
		if err != nil {
			return err
		}
		c.Root = root
	}
	if c.Cache == "" {
		base := os.Getenv("SWITCHYARD_CACHE")
		if base == "" {
			dir, err := os.UserCacheDir()
			if err != nil {
				return fmt.Errorf("find the cache folder: %w (set SWITCHYARD_CACHE)", err)
			}
			base = filepath.Join(dir, "switchyard")
		}
		c.Cache = filepath.Join(base, "images")
	}
	return nil
}

// findRoot goes up until the folder with the main module.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module switchyard.dev\n")) {
			return dir, nil
		}
	}
	return "", errors.New("run this within the repository")
}

// one builds and packs one image, if it has changed.
func (c Config) one(ctx context.Context, image image) (outcome string, err error) {
	spec, err := image.spec(ctx)
	if err != nil {
		return "", err
	}
	archive := filepath.Join(c.Out, image.name+".tar")
	mark, err := spec.Mark(image.reference)
	if err != nil {
		return "", err
	}
	markFile := archive + ".mark"
	if old, err := os.ReadFile(markFile); err == nil && string(old) == mark {
		if info, err := os.Stat(archive); err == nil {
			return "unchanged, " + size(info), nil
		}
	}
	built, err := pack.Image(spec)
	if err != nil {
		return "", err
	}
	// If packing is interrupted, an archive without a mark is left, never one with the mark of the
	// previous archive.
	if err := os.Remove(markFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := pack.Write(archive, image.reference, built); err != nil {
		return "", err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return "", err
	}
	return "packed, " + size(info), pack.Replace(markFile, []byte(mark))
}

func size(info os.FileInfo) string { return fmt.Sprintf("%d MB", (info.Size()+1<<19)>>20) }

// spec compiles an image's program and gathers its files.
func (c Config) spec(ctx context.Context, image catalog.Image) (pack.Spec, error) {
	binary := filepath.Join(c.Cache, "bin", image.Name)
	if err := c.compile(ctx, image, image.Program, binary); err != nil {
		return pack.Spec{}, err
	}
	files := []pack.File{{Host: binary, Path: image.Path}}
	for _, path := range slices.Sorted(maps.Keys(image.Beside)) {
		beside := binary + "-" + filepath.Base(path)
		if err := c.compile(ctx, image, image.Beside[path], beside); err != nil {
			return pack.Spec{}, err
		}
		files = append(files, pack.File{Host: beside, Path: path})
	}
	spec := pack.Spec{
		Files:        files,
		Entrypoint:   []string{image.Path},
		User:         catalog.User,
		Architecture: runtime.GOARCH,
		StopSignal:   image.StopSignal,
		Labels: map[string]string{
			"org.opencontainers.image.title":    image.Title,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if !image.Envoy {
		return spec, nil
	}
	envoy, err := c.envoy(ctx)
	if err != nil {
		return pack.Spec{}, err
	}
	spec.Files = append(spec.Files, envoy...)
	return spec, nil
}

// compile builds a static program of an image that is the same wherever it is built. The Go
// command does nothing when binary is up to date.
func (c Config) compile(ctx context.Context, image catalog.Image, program, binary string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, program}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(c.Root, image.Module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=", "GOWORK=off", "PWD="+cmd.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// envoy returns the Envoy binary and the files of the C library that it needs.
func (c Config) envoy(ctx context.Context) ([]pack.File, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "./tools/envoy/cmd/envoy-path")
	var errs bytes.Buffer
	cmd.Dir, cmd.Stderr = c.Root, &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find Envoy: %w\n%s", err, bytes.TrimSpace(errs.Bytes()))
	}
	binary := strings.TrimSpace(string(out))
	needed, err := library.Needed(binary)
	if err != nil {
		return nil, err
	}
	files := []pack.File{{Host: binary, Path: catalog.EnvoyPath}}
	for _, f := range needed {
		files = append(files, pack.File{Host: f.Host, Path: f.Path})
	}
	return files, nil
}
