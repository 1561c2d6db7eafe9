package istio

import (
	"context"
	"path/filepath"

	"switchyard.dev/tools/pinned"
)

// Istio is Istio on this machine.
type Istio struct {
	// Istiod is the path of its control plane's program, pilot-discovery.
	Istiod string
	// Definitions are the files and folders with the CustomResourceDefinitions of Istio and of
	// the Gateway API's standard channel.
	Definitions []string
}

// version is what istiod says it is: the release from which pinned takes its commit, since
// Istio's module has no versions of its own.
const version = "1.31.0"

// Find returns Istio, and compiles istiod first when the cache has none of the pinned
// version. root is the folder of this repository. The error is one that says what to do.
func Find(ctx context.Context, root string) (Istio, error) {
	pins := pinned.Module{
		Name: "istiod", Folder: filepath.Join(root, "tools", "istio", "pinned"), Cache: "istio",
		// As Istio's own release is built; the first tag takes the quicker protobuf code,
		// the second leaves out validation that istiod never calls.
		Tags:  "vtprotobuf,disable_pgv",
		Stamp: []string{"istio.io/istio/pkg/version.buildVersion=" + version, "istio.io/istio/pkg/version.buildTag=" + version},
	}
	api, err := pins.Source(ctx, "istio.io/api")
	if err != nil {
		return Istio{}, err
	}
	gateway, err := pins.Source(ctx, "sigs.k8s.io/gateway-api")
	if err != nil {
		return Istio{}, err
	}
	programs, err := pins.Programs(ctx)
	return Istio{
		Istiod: filepath.Join(programs, "pilot-discovery"),
		Definitions: []string{
			filepath.Join(api, "kubernetes", "customresourcedefinitions.gen.yaml"),
			filepath.Join(gateway, "config", "crd", "standard"),
		},
	}, err
}
