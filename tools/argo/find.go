package argo

import (
	"context"
	"path/filepath"

	"switchyard.dev/tools/pinned"
)

// Argo is Argo Rollouts on this machine.
type Argo struct {
	// Controller is the path of the controller's program.
	Controller string
	// Definitions is a folder with the CustomResourceDefinitions, one in each YAML file
	// whose name ends in -crd.yaml.
	Definitions string
}

// Find returns Argo Rollouts, and compiles the controller first when the cache has none
// of the pinned version. root is the folder of this repository. The error is one that
// says what to do.
func Find(ctx context.Context, root string) (Argo, error) {
	pins := pinned.Module{Name: "Argo Rollouts", Folder: filepath.Join(root, "tools", "argo", "pinned"), Cache: "argo"}
	source, err := pins.Source(ctx, "github.com/argoproj/argo-rollouts")
	if err != nil {
		return Argo{}, err
	}
	programs, err := pins.Programs(ctx)
	return Argo{
		Controller:  filepath.Join(programs, "rollouts-controller"),
		Definitions: filepath.Join(source, "manifests", "crds"),
	}, err
}
