package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"switchyard.dev/tools/image/catalog"
)

const tested = "route-sidecar-init"

func run(t *testing.T, c Config) (Config, string) {
	t.Helper()
	var progress bytes.Buffer
	c.Registry, c.Tag, c.Progress = "registry.test", "dev", &progress
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := Run(ctx, c); err != nil {
		t.Fatal(err)
	}
	return c, progress.String()
}

func read(t *testing.T, c Config) v1.Image {
	t.Helper()
	tag, err := name.NewTag("registry.test/" + tested + ":dev")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(filepath.Join(c.Out, tested+".tar"), &tag)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func digest(t *testing.T, image v1.Image) string {
	t.Helper()
	d, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func TestAnImageHoldsItsProgramAndNothingElse(t *testing.T) {
	c, _ := run(t, Config{Out: t.TempDir(), Cache: t.TempDir(), Only: []string{tested}})
	image := read(t, c)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/redirect" {
		t.Errorf("entry point %q", got)
	}
	if config.Config.User != catalog.User || config.OS != "linux" || config.Architecture == "" {
		t.Errorf("user %q, for %s/%s", config.Config.User, config.OS, config.Architecture)
	}
	want, err := os.ReadFile(filepath.Join(c.Cache, "bin", tested))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	eachFile(t, image, func(header *tar.Header, content []byte) {
		found++
		if header.Name != "redirect" || header.Mode != 0o555 || !header.ModTime.Equal(time.Unix(0, 0)) || header.Uid != 0 {
			t.Errorf("file %+v", header)
		}
		if !bytes.Equal(content, want) {
			t.Error("the program in the image is not the one that was built")
		}
	})
	if found != 1 {
		t.Errorf("%d files", found)
	}
}

func eachFile(t *testing.T, image v1.Image, do func(*tar.Header, []byte)) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		do(header, body)
	}
}

func TestTwoBuildsOfTheSameSourcesHaveTheSameDigest(t *testing.T) {
	first, _ := run(t, Config{Out: t.TempDir(), Cache: t.TempDir(), Only: []string{tested}})
	second, _ := run(t, Config{Out: t.TempDir(), Cache: t.TempDir(), Only: []string{tested}})
	if a, b := digest(t, read(t, first)), digest(t, read(t, second)); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

func TestUnchangedImagesAreNotPackedAgain(t *testing.T) {
	c, progress := run(t, Config{Out: t.TempDir(), Cache: t.TempDir(), Only: []string{tested}})
	if !strings.Contains(progress, "packed") {
		t.Fatalf("first: %s", progress)
	}
	if _, progress = run(t, c); !strings.Contains(progress, "unchanged") {
		t.Errorf("second: %s", progress)
	}
	if err := os.Remove(filepath.Join(c.Out, tested+".tar")); err != nil {
		t.Fatal(err)
	}
	if _, progress = run(t, c); !strings.Contains(progress, "packed") {
		t.Errorf("after the archive was removed: %s", progress)
	}
	if err := os.WriteFile(filepath.Join(c.Out, tested+".tar.mark"), []byte("of another content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, progress = run(t, c); !strings.Contains(progress, "packed") {
		t.Errorf("with an archive of another content: %s", progress)
	}
}

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	whole := Config{Out: "out", Registry: "r", Tag: "t"}
	cases := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no folder":        {func(c *Config) { c.Out = "" }, "--out"},
		"no tag":           {func(c *Config) { c.Tag = "" }, "tag"},
		"an unknown image": {func(c *Config) { c.Only = []string{"nginx"} }, `no image is called "nginx": choose from controller-manager`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			config := whole
			c.change(&config)
			if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestProgramsThatTalkToServersOfOthersBringAuthorities: images have no file with them.
func TestProgramsThatTalkToServersOfOthersBringAuthorities(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range catalog.Images() {
		if image.Name != "controller-manager" && image.Name != "route-server" && image.Name != "agent" && image.Name != "controlplane" && image.Name != "smart-test" {
			continue
		}
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", image.Program)
		list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		packages, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(packages), "\ngolang.org/x/crypto/x509roots/fallback\n") {
			t.Errorf("%s verifies certificates of public authorities, and knows none", image.Name)
		}
	}
}

func TestEveryImageHasADockerfileOfTheSameLayout(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range catalog.Images() {
		text, err := os.ReadFile(filepath.Join(root, "tools", "image", image.Name, "Dockerfile"))
		if err != nil {
			t.Error(err)
			continue
		}
		for path, program := range image.Beside {
			if !strings.Contains(string(text), " "+program+"\n") || !strings.Contains(string(text), " "+path+"\n") {
				t.Errorf("the Dockerfile of %s has no %s from %s", image.Name, path, program)
			}
		}
		for _, want := range []string{
			" " + image.Program + "\n",
			`ENTRYPOINT ["` + image.Path + `"]`,
			"USER " + catalog.User,
			"COPY --from=build --chmod=0555 /out/program " + image.Path + "\n",
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("the Dockerfile of %s lacks %q", image.Name, want)
			}
		}
	}
}
