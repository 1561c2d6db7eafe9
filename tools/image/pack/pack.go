// Package pack makes a container image of files: one layer, the same bytes for
// the same files every time, above that of a whole file system where there is one.
package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image.
type File struct {
	// Host is where its content stands on this machine.
	Host string
	// Path is where it stands in the image, absolute.
	Path string
}

// Spec describes an image.
type Spec struct {
	// Root is an archive with a whole file system, which is the image's first layer; empty:
	// there is none.
	Root string
	// Files is the content of the image. The files are owned by root, readable and executable by
	// all users, and read only.
	Files []File
	// Entrypoint is the command of the image.
	Entrypoint []string
	// User is the uid:gid that it runs as.
	User string
	// StopSignal is what ends it in place of SIGTERM, when not empty.
	StopSignal string
	// Architecture is that of the programs, as Go names it.
	Architecture string
	// Labels are shown by tools that inspect images.
	Labels map[string]string
}

// Mark names the content of an image under a name: two images with the same mark
// have the same digest. It costs reading the files, no more.
func (s Spec) Mark(reference string) (string, error) {
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode([]any{reference, s}); err != nil {
		return "", err
	}
	content := s.Files
	if s.Root != "" {
		content = append([]File{{Host: s.Root}}, content...)
	}
	for _, f := range content {
		file, err := os.Open(f.Host)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(sum, file)
		file.Close()
		if err != nil {
			return "", fmt.Errorf("read %s: %w", f.Host, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Image makes the image.
func Image(s Spec) (v1.Image, error) {
	layers, err := s.layers()
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", s.Architecture
	config.Config = v1.Config{Entrypoint: s.Entrypoint, User: s.User, Labels: s.Labels, WorkingDir: "/", StopSignal: s.StopSignal}
	return mutate.ConfigFile(image, config)
}

// layers returns the layer of a whole file system, where there is one, and that of the files.
func (s Spec) layers() (layers []v1.Layer, err error) {
	if s.Root != "" {
		root, err := tarball.LayerFromFile(s.Root, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.Root, err)
		}
		layers = append(layers, root)
	}
	if len(s.Files) == 0 && s.Root != "" {
		return layers, nil
	}
	var layerTar bytes.Buffer
	if err := writeLayer(&layerTar, s.Files); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layerTar.Bytes())), nil
	}, tarball.WithCompressedCaching)
	return append(layers, layer), err
}

// Write writes an image under its name to an archive, whole or not at all.
func Write(archive, reference string, image v1.Image) error {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return err
	}
	partial := archive + ".partial"
	if err := tarball.WriteToFile(partial, tag, image); err != nil {
		return fmt.Errorf("write %s: %w", archive, err)
	}
	return os.Rename(partial, archive)
}

// Replace writes a file, whole or not at all.
func Replace(path string, content []byte) error {
	partial := path + ".partial"
	if err := os.WriteFile(partial, content, 0o644); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// writeLayer writes files and their folders in order of path, all of the same
// time, owner and mode.
func writeLayer(to io.Writer, files []File) error {
	out := tar.NewWriter(to)
	for _, dir := range folders(files) {
		header := tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}
		if err := out.WriteHeader(&header); err != nil {
			return err
		}
	}
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range sorted {
		content, err := os.ReadFile(f.Host)
		if err != nil {
			return err
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: relative(f.Path), Mode: 0o555,
			Size: int64(len(content)), ModTime: time.Unix(0, 0)}
		if err := out.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := out.Write(content); err != nil {
			return err
		}
	}
	return out.Close()
}

// folders are those that files stand in, parents first.
func folders(files []File) []string {
	var dirs []string
	for _, f := range files {
		for dir := path.Dir(relative(f.Path)); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func relative(p string) string { return strings.TrimPrefix(path.Clean(p), "/") }
