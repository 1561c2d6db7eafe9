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
	// Definitions is a directory of CustomResourceDefinitions, one in each YAML file with the suffix
	// -crd.yaml.
	Definitions string
}

// Find returns Argo Rollouts. It compiles the controller first if the cache has none of the pinned
// version. root is the directory of this repository. The error names the remedy.
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
