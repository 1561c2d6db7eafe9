package samples

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"switchyard.dev/tools/cache"
	"switchyard.dev/tools/listed"
	"switchyard.dev/tools/pinned"
)

// User is the uid:gid that the images run as: PostgreSQL requires one that exists in Debian's
// passwd.
const User = "65534:65534"

// programs are the programs that each image contains besides Debian, by the name of the image.
var programs = map[string][]string{
	"debian":  nil,
	"kubectl": {"kubectl", "helm"},
	"nats":    {"nats"},
	"tofu":    {"tofu", "kubectl"},
}

// compiled are the programs that pinned/go.mod has, by their name.
var compiled = map[string]string{
	"nats": "github.com/nats-io/natscli/nats",
	"tofu": "github.com/opentofu/opentofu/cmd/tofu",
}

// Names returns the names of all images: switchyard.dev/NAME:dev.
func Names() []string { return slices.Sorted(maps.Keys(programs)) }

// Pack packs the images of these names that have changed, and returns the archives of all. root is
// the directory of this repository. The error names the remedy.
func Pack(ctx context.Context, root string, names ...string) ([]string, error) {
	system, err := debian(ctx)
	if err != nil {
		return nil, err
	}
	var images []listed.Image
	for _, name := range names {
		image := listed.Image{Name: name, Reference: "switchyard.dev/" + name + ":dev", Root: system, User: User}
		with, known := programs[name]
		if !known {
			return nil, fmt.Errorf("no image is called %q: choose from %s", name, strings.Join(Names(), ", "))
		}
		for _, program := range with {
			path, err := find(ctx, root, program)
			if err != nil {
				return nil, err
			}
			image.Files = append(image.Files, listed.File{Host: path, Path: "/usr/local/bin/" + program})
		}
		images = append(images, image)
	}
	return listed.Pack(ctx, root, "samples", images)
}

// find returns a program: one that tools/cluster has built, or one that is compiled here.
func find(ctx context.Context, root, program string) (string, error) {
	if tool, ours := compiled[program]; ours {
		pins := pinned.Module{Name: program + " for samples", Folder: filepath.Join(root, "tools", "samples", "pinned"), Cache: "samples", Tools: []string{tool}}
		folder, err := pins.Programs(ctx)
		return filepath.Join(folder, program), err
	}
	path := filepath.Join(cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(cache.Dir(), "bin", "current")), program)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: build it with `tools/cluster/cluster build`", err)
	}
	return filepath.EvalSymlinks(path)
}
