package rig

import (
	"context"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/apps"
)

// Isolate prepares the requirements of a rig, and runs this program again in a separate network
// namespace, where Isolate returns. Call it first in main or TestMain. root is the directory of
// this repository. It needs root and go.
func Isolate(root string) error {
	if !podnet.Inside() {
		if _, err := apps.Find(context.Background(), root); err != nil {
			return err
		}
	}
	return sidecar.Isolate(sidecar.Program)
}
