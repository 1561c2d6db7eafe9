package routing

import (
	"context"
	"fmt"
	"strings"
	"time"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/meshes/explanation"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/routing/sidecars"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/xds/routingkey"
)

// caveatsOf returns the caveats that are read from the cluster and the routing key.
func caveatsOf(s *command.Session) Caveats {
	return Caveats{
		Unfit:    unfit,
		Outdated: func(ctx context.Context, pod string) string { return sidecars.Outdated(ctx, s, pod) },
		Sandbox:  func(ctx context.Context, sandbox string) string { return ofSandbox(ctx, s, sandbox) },
		Unconnected: func(ctx context.Context, w *routingv1.Workload) string {
			return sidecars.Unconnected(ctx, s, w)
		},
		Mesh: func(ctx context.Context, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) Mesh {
			return byMesh(ctx, s, asked, got)
		},
	}
}

// unfit returns in a sentence in which forms of headers no request can carry a key; empty when all can.
func unfit(key string) string {
	defects := routingkey.Check(key)
	switch len(defects) {
	case 0:
		return ""
	case len(routingkey.Forms()):
		return "No header can carry this key: it " + defects[0].Why + "."
	}
	forms := make([]string, 0, len(defects))
	for _, d := range defects {
		forms = append(forms, string(d.Form))
	}
	return "No request can carry this key in " + strings.Join(forms, " or ") + ": it " + defects[0].Why + "."
}

// caveatsWithin is how long explain waits for the caveats of a sandbox.
const caveatsWithin = 3 * time.Second

// ofSandbox returns a line for each caveat of a sandbox. Without a kubeconfig there is none.
func ofSandbox(ctx context.Context, s *command.Session, sandbox string) (out string) {
	access, err := s.Cluster.Rest()
	if err != nil || s.Archive != "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, caveatsWithin)
	defer cancel()
	var caveats []string
	reader, err := command.Client(access)
	if err == nil {
		caveats, err = sandboxes.Caveats(ctx, reader, sandbox)
	}
	if err != nil {
		return show.Line(fmt.Sprintf("The caveats of sandbox %s are not known: %v", sandbox, err)) + "\n"
	}
	for _, c := range caveats {
		out += show.Line(fmt.Sprintf("Caveat of sandbox %s: %s", sandbox, c)) + "\n"
	}
	return out
}

// byMesh returns the effect of meshes on a request that no sidecar routes.
func byMesh(ctx context.Context, s *command.Session, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) (out Mesh) {
	if s.Archive != "" {
		return out // An archive has nothing of it.
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	var mesh explanation.Mesh
	reader, err := s.Reader()
	if err == nil {
		mesh, err = explanation.Explain(ctx, reader, asked, got)
	}
	if err != nil {
		return Mesh{Lines: "Whether a mesh routes it is not known: " + show.Plain(err.Error()) + "\n"}
	}
	for _, line := range mesh.Lines {
		out.Lines += show.Plain(line) + "\n"
	}
	out.By, out.Lost, out.Remedy = show.Plain(mesh.By), show.Plain(mesh.Lost), show.Plain(mesh.Remedy)
	return out
}
