package contour

import (
	"context"
	"path/filepath"

	"switchyard.dev/tools/pinned"
)

// Contour is Contour on this machine.
type Contour struct {
	// Program is the path of its control plane's program.
	Program string
	// Definitions is a file with its own CustomResourceDefinitions. Those of the Gateway API
	// are not among them.
	Definitions string
}

// Find returns Contour. It compiles Contour first if the cache has none of the pinned version. root
// is the directory of this repository. The error names the remedy.
func Find(ctx context.Context, root string) (Contour, error) {
	pins := pinned.Module{Name: "Contour", Folder: filepath.Join(root, "tools", "contour", "pinned"), Cache: "contour"}
	source, err := pins.Source(ctx, "github.com/projectcontour/contour")
	if err != nil {
		return Contour{}, err
	}
	programs, err := pins.Programs(ctx)
	return Contour{
		Program:     filepath.Join(programs, "contour"),
		Definitions: filepath.Join(source, "examples", "contour", "01-crds.yaml"),
	}, err
}
