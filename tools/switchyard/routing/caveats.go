package routing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/meshes/explanation"
	reasons "switchyard.dev/routeserver/explain"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/routing/sidecars"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/xds/routingkey"
)

// caveats returns the lines below an answer and its others.
func caveats(ctx context.Context, s *command.Session, req *routingv1.ExplainRequest, e *routingv1.ExplainResponse) (out string) {
	if why := unfit(req.GetRoutingKey()); req.GetRoutingKey() != "" && why != "" {
		out += show.Plain(why) + "\n"
	}
	headers := lists.Map(req.GetHeaders(), func(h *routingv1.Header) reasons.Header {
		return reasons.Header{Name: h.GetName(), Value: h.GetValue()}
	})
	if why := reasons.NotForwarded(headers, e.GetKeyFrom()); why != "" {
		out += show.Line(why) + "\n"
	}
	if !isNewest(req) {
		return out
	}
	if pod := req.GetPod(); pod != "" {
		out += sidecars.Outdated(ctx, s, pod)
	}
	answers := append([]*routingv1.ExplainResponse{e}, e.GetOthers()...)
	var named []string
	for _, e := range answers {
		if name := e.GetRule().GetSandbox(); name != "" && !slices.Contains(named, name) {
			named = append(named, name)
			out += ofSandbox(ctx, s, name)
		}
	}
	for _, e := range answers {
		if e.GetVerdict() == routingv1.Verdict_NOT_ACKNOWLEDGED && len(e.GetLagging()) == 0 && req.GetPod() == "" {
			out += sidecars.Unconnected(ctx, s, e.GetBaseline())
		}
	}
	return out
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
	forms := lists.Map(defects, func(d routingkey.Defect) string { return string(d.Form) })
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

// byMesh returns the effect of meshes on a request that no sidecar routes, escaped.
func byMesh(ctx context.Context, s *command.Session, asked *routingv1.ExplainRequest, got *routingv1.ExplainResponse) (mesh explanation.Mesh) {
	if s.Archive != "" {
		return mesh // An archive has nothing of it.
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	reader, err := s.Reader()
	if err == nil {
		mesh, err = explanation.Explain(ctx, reader, asked, got)
	}
	if err != nil {
		return explanation.Mesh{Lines: []string{"Whether a mesh routes it is not known: " + err.Error()}}
	}
	mesh.By, mesh.Lost, mesh.Remedy = show.Plain(mesh.By), show.Plain(mesh.Lost), show.Plain(mesh.Remedy)
	return mesh
}

// linesOf returns the reports of meshes as text.
func linesOf(mesh explanation.Mesh) (out string) {
	for _, line := range mesh.Lines {
		out += show.Plain(line) + "\n"
	}
	return out
}
