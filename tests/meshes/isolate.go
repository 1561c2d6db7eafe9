package meshes

import (
	"context"
	"os"
	"strings"

	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/istio"
)

// What Isolate found, for the program that runs within.
const (
	istiodVariable      = "SWITCHYARD_ISTIOD"
	definitionsVariable = "SWITCHYARD_ISTIO_DEFINITIONS"
)

// Isolate finds istiod and Envoy, compiles what the cache lacks, builds programs of this repository, and runs this program again in a
// separate network namespace, where Isolate returns. Call it first in TestMain. It needs root.
func Isolate(programs ...string) error {
	if !podnet.Inside() {
		if err := find(); err != nil {
			return err
		}
	}
	return sidecar.Isolate(programs...)
}

func find() error {
	root, err := crd.Root()
	if err != nil {
		return err
	}
	found, err := istio.Find(context.Background(), root)
	if err != nil {
		return err
	}
	if err := os.Setenv(istiodVariable, found.Istiod); err != nil {
		return err
	}
	return os.Setenv(definitionsVariable, strings.Join(found.Definitions, string(os.PathListSeparator)))
}
