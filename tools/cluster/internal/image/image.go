// Package image packs one static program into an image, without a registry and
// without Docker.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Pack writes an image with one file, the program, as its entry point to
// target, in the form that `docker save` has. reference names the image. The
// image runs as a user without rights.
func Pack(program, reference, target string) error {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("naming the image: %w", err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading the program to pack: %w", err)
	}
	entry := "/" + filepath.Base(program)
	img, err := layered(entry, content)
	if err != nil {
		return fmt.Errorf("packing %s: %w", program, err)
	}
	if err := tarball.WriteToFile(target, tag, img); err != nil {
		return fmt.Errorf("writing the image %s: %w", target, err)
	}
	return nil
}

func layered(entry string, content []byte) (v1.Image, error) {
	files, err := archive(entry, content)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint, config.Config.User = []string{entry}, "65535:65535"
	return mutate.ConfigFile(img, config)
}

// archive is a tar of the one file. Its time is always the same, so that the
// same program gives the same image.
func archive(entry string, content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: entry[1:], Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return out.Bytes(), w.Close()
}
