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

func TestAWholeFileSystemLiesBelowTheFiles(t *testing.T) {
	dir := t.TempDir()
	program, root := filepath.Join(dir, "program"), filepath.Join(dir, "root.tar")
	if err := os.WriteFile(program, []byte("new"), 0o700); err != nil {
		t.Fatal(err)
	}
	below, err := os.Create(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeLayer(below, []File{{Host: program, Path: "/bin/sh"}, {Host: program, Path: "/bin/old"}}); err != nil {
		t.Fatal(err)
	}
	if err := below.Close(); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Root: root, Files: []File{{Host: program, Path: "/bin/psql"}}, Architecture: "amd64"}
	image, err := Image(spec)
	if err != nil {
		t.Fatal(err)
	}
	if layers, err := image.Layers(); err != nil || len(layers) != 2 {
		t.Errorf("%d layers: %v", len(layers), err)
	}
	var got []string
	unpacked := mutate.Extract(image)
	defer unpacked.Close()
	for all := tar.NewReader(unpacked); ; {
		header, err := all.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			got = append(got, header.Name)
		}
	}
	if len(got) != 3 {
		t.Errorf("it holds %q", got)
	}
	before, err := spec.Mark("a:b")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if after, err := spec.Mark("a:b"); err != nil || after == before {
		t.Errorf("another file system has the same mark: %v", err)
	}
}
