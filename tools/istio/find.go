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
	// the Gateway API's standard channel, which are in GatewayAPI.
	Definitions []string
	GatewayAPI  string
}

// version is the version that istiod reports: the release from which pinned takes its commit, since
// Istio's module has no versions of its own.
const version = "1.31.0"

// Find returns Istio. It compiles istiod first if the cache has none of the pinned version. root is
// the directory of this repository. The error names the remedy.
func Find(ctx context.Context, root string) (Istio, error) {
	pins := tools(root, "istiod", "istio.io/istio/pilot/cmd/pilot-discovery")
	api, err := pins.Source(ctx, "istio.io/api")
	if err != nil {
		return Istio{}, err
	}
	gateway, err := pins.Source(ctx, "sigs.k8s.io/gateway-api")
	if err != nil {
		return Istio{}, err
	}
	gateway = filepath.Join(gateway, "config", "crd", "standard")
	programs, err := pins.Programs(ctx)
	return Istio{
		Istiod:      filepath.Join(programs, "pilot-discovery"),
		Definitions: []string{filepath.Join(api, "kubernetes", "customresourcedefinitions.gen.yaml"), gateway},
		GatewayAPI:  gateway,
	}, err
}

// tools returns some of the tools in pinned/go.mod, under a name for messages.
func tools(root, name string, paths ...string) pinned.Module {
	return pinned.Module{
		Name: name, Folder: filepath.Join(root, "tools", "istio", "pinned"), Cache: "istio", Tools: paths,
		// As Istio's own release is built; the first tag takes the quicker protobuf code,
		// the second leaves out validation that istiod never calls.
		Tags:  "vtprotobuf,disable_pgv",
		Stamp: []string{"istio.io/istio/pkg/version.buildVersion=" + version, "istio.io/istio/pkg/version.buildTag=" + version},
	}
}
