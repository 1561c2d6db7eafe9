package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestPackedProgramIsReadBackAsTheEntryPoint(t *testing.T) {
	dir := t.TempDir()
	program, target := filepath.Join(dir, "pause"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Pack(program, "switchyard.dev/pause:1", target); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if entry := config.Config.Entrypoint; len(entry) != 1 || entry[0] != "/pause" || config.Config.User == "" || config.OS != "linux" {
		t.Errorf("configuration %+v", config.Config)
	}
	files := tar.NewReader(mutate.Extract(img))
	header, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(files)
	if err != nil || header.Name != "pause" || header.Mode != 0o755 || string(content) != "a program" {
		t.Errorf("file %+v with %q, %v", header, content, err)
	}
}

func TestTheSameProgramGivesTheSameImage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pause")
	if err := os.WriteFile(program, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	var images [2][]byte
	for i := range images {
		target := filepath.Join(dir, "image.tar")
		if err := Pack(program, "switchyard.dev/pause:1", target); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		images[i] = content
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two images of the same program differ")
	}
}

func TestAWrongNameIsRefused(t *testing.T) {
	if err := Pack("/none", "Not A Name", "/none"); err == nil {
		t.Error("no error")
	}
}
