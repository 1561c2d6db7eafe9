package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"switchyard.dev/tools/istio"
	"switchyard.dev/tools/listed"
	"switchyard.dev/tools/pinned"
)

// named matches the images in the suite's manifests.
var named = regexp.MustCompile(`image: (\S+)`)

// backends returns the images of the suite's backends, under the names in its manifests: its own
// echo server, and that of Istio's tests for the mesh. The DNS server of tests that are not run is
// replaced by the echo server: it only needs to be ready.
func backends(ctx context.Context, root string) ([]listed.Image, error) {
	pins := pinned.Module{Name: "the suite's backends", Folder: filepath.Join(root, "tests", "meshes", "conformance"), Cache: "conformance"}
	suite, err := pins.Source(ctx, "sigs.k8s.io/gateway-api/conformance")
	if err != nil {
		return nil, err
	}
	programs, err := pins.Programs(ctx)
	if err != nil {
		return nil, err
	}
	mesh, err := istio.FindNode(ctx, root)
	if err != nil {
		return nil, err
	}
	var references []string
	for _, part := range []string{"base", "mesh"} {
		text, err := os.ReadFile(filepath.Join(suite, part, "manifests.yaml"))
		if err != nil {
			return nil, fmt.Errorf("read the suite's manifests: %w", err)
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			references = append(references, found[1])
		}
	}
	slices.Sort(references)
	var out []listed.Image
	for _, reference := range slices.Compact(references) {
		image := mesh.Echo
		if !strings.Contains(reference, "echo-advanced") {
			image = listed.Image{
				User: "65532:65532", Entrypoint: []string{"/echo-basic"},
				Files: []listed.File{{Host: filepath.Join(programs, "echo-basic"), Path: "/echo-basic"}},
			}
		}
		image.Name, image.Reference = strings.ReplaceAll(path.Base(reference), ":", "-"), reference
		out = append(out, image)
	}
	return out, nil
}
