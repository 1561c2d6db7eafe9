package pack

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// packed packs one program into an archive, which it returns.
func packed(t *testing.T) (archive string) {
	t.Helper()
	dir := t.TempDir()
	program, archive := filepath.Join(dir, "program"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	image, err := Image(Spec{
		Files: []File{{Host: program, Path: "/bin/pause"}}, Entrypoint: []string{"/bin/pause"},
		User: "65535:65535", Architecture: "amd64",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(archive, "switchyard.dev/pause:1", image); err != nil {
		t.Fatal(err)
	}
	return archive
}

func TestPackedProgramIsReadBackAsTheEntryPoint(t *testing.T) {
	image, err := tarball.ImageFromPath(packed(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if entry := config.Config.Entrypoint; len(entry) != 1 || entry[0] != "/bin/pause" || config.Config.User != "65535:65535" ||
		config.OS != "linux" || config.Architecture != "amd64" {
		t.Errorf("configuration %+v", config)
	}
	unpacked := mutate.Extract(image)
	defer unpacked.Close()
	files := tar.NewReader(unpacked)
	folder, err := files.Next()
	if err != nil || folder.Name != "bin" || folder.Mode != 0o755 {
		t.Fatalf("folder %+v, %v", folder, err)
	}
	file, err := files.Next()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(files)
	if err != nil || file.Name != "bin/pause" || file.Mode != 0o555 || file.Uid != 0 || string(content) != "a program" {
		t.Errorf("file %+v with %q, %v", file, content, err)
	}
}

func TestTheSameProgramGivesTheSameImage(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		content, err := os.ReadFile(packed(t))
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = content
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two images of the same program differ")
	}
}

func TestAWrongNameIsRefused(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "image.tar"), "Not A Name", empty.Image); err == nil {
		t.Error("no error")
	}
}
