package argoworkflows

import (
	"context"
	"os"
	"path/filepath"

	"switchyard.dev/tools/cache"
	"switchyard.dev/tools/pinned"
)

// Argo is Argo Workflows on this machine.
type Argo struct {
	// Controller and Executor are the paths of its programs.
	Controller, Executor string
	// Manifests is the folder with what installs it, for kustomize.
	Manifests string
}

// inCache is the folder of the cache with all that is here.
const inCache = "argoworkflows"

// Find returns Argo Workflows. It compiles it first if the cache has none of the pinned version.
// root is the directory of this repository. The error names the remedy.
func Find(ctx context.Context, root string) (Argo, error) {
	pins := pinned.Module{Name: "Argo Workflows", Folder: filepath.Join(root, "tools", "argoworkflows", "pinned")}
	module, err := pins.Source(ctx, "github.com/argoproj/argo-workflows/v3")
	if err != nil {
		return Argo{}, err
	}
	source, err := cache.Folder(filepath.Join(inCache, "source", filepath.Base(module)), func(half string) error { return copied(module, half) })
	if err != nil {
		return Argo{}, err
	}
	// All other versions are those in its own go.mod.
	itself := pinned.Module{Name: pins.Name, Folder: source, Cache: inCache, Tools: []string{"./cmd/workflow-controller", "./cmd/argoexec"}}
	programs, err := itself.Programs(ctx)
	return Argo{
		Controller: filepath.Join(programs, "workflow-controller"), Executor: filepath.Join(programs, "argoexec"),
		Manifests: filepath.Join(source, "manifests"),
	}, err
}

// copied copies the module, and gives it the file that it lacks as it is published: signals are
// sent on Linux as they are on macOS.
func copied(module, to string) error {
	if err := os.CopyFS(to, os.DirFS(module)); err != nil {
		return err
	}
	folder := filepath.Join(to, "workflow", "executor", "os-specific")
	return os.Link(filepath.Join(folder, "signal_darwin.go"), filepath.Join(folder, "signal_linux.go"))
}
