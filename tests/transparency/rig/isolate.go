package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/apps"
	"switchyard.dev/tools/envoy"
)

// programVariable names the sidecar's program in the environment.
const programVariable = "SWITCHYARD_TRANSPARENCY_PROGRAM"

// Isolate makes ready what a rig needs, and runs this program again in a network
// namespace of its own, where Isolate returns. Call it first in main or TestMain. root is
// the folder of this repository. It needs root and go.
func Isolate(root string) error {
	if podnet.Inside() {
		return podnet.Isolate()
	}
	dir, err := os.MkdirTemp("", "transparency-program-")
	if err != nil {
		return err
	}
	code, err := rerun(root, filepath.Join(dir, "devmesh"))
	if removed := os.RemoveAll(dir); err == nil {
		err = removed
	}
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func rerun(root, program string) (int, error) {
	ctx := context.Background()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "switchyard.dev/sidecars/cmd/devmesh").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the sidecar's program: %w: %s", err, out)
	}
	if _, err := apps.Find(ctx, root); err != nil {
		return 0, err
	}
	binary, err := envoy.Find(ctx)
	if err != nil {
		return 0, err
	}
	return podnet.Rerun(programVariable+"="+program, "ENVOY="+binary)
}
