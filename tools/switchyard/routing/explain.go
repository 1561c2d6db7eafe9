package routing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/lists"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/meshes/explanation"
	reasons "switchyard.dev/routeserver/explain"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/routing/sidecars"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/xds/routingkey"
)

// Explain returns the command that shows where a request is routed, and why.
func Explain(s *command.Session) *cobra.Command {
	req := &routingv1.ExplainRequest{}
	var headers []string
	var at, method string
	c := &cobra.Command{
		Use:   "explain DESTINATION | KIND/NAMESPACE/NAME",
		Short: "Explain the route of a request",
		Long: `Explain the route of a request; if there is none, name the missing part and since when it is missing.
DESTINATION is the address that a client calls: host:port of a Service, its cluster IP,
or a URL (a mesh can route by its path). The routing key is read from the headers of
the request (--header) as a sidecar reads them, or given with --key.

The text lists headers that sidecars read but applications may not forward, with the
reasons. With a kubeconfig it also lists all caveats of the sandbox; with --pod, whether
that pod's sidecar is outdated; and for a workload without sidecars, whether a mesh
routes it: by which VirtualServices of Istio (from its IstioRoutes), or by which routes
of the Gateway API (from its GatewayAPIRoutes). -o json contains only the route server's
response (coverage -o json contains the rest); its exit code accounts for the mesh too.

If the Service also selects pods of other workloads that sandboxes fork, there is one
explanation for each workload.

Exit code 0 if the request is routed to the sandbox of its key, by a sidecar or a mesh,
or stays at the baseline because the sandbox declares so, for every workload that the
Service selects; otherwise 1.`,
		Example: `  switchyard explain customer.shop:8081 --key k7q2m9x4v1tz8
  switchyard explain customer.shop:8081 -H 'baggage: sd-routing-key=k7q2m9x4v1tz8'
  switchyard explain deployment/shop/customer --key k7q2m9x4v1tz8 --at 14:03
  switchyard explain deployment/shop/customer --key k7q2m9x4v1tz8 --pod shop/customer-7d4b9-x2x`,
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringArrayVarP(&headers, "header", "H", nil, "a header of the request, `'name: value'`; repeatable")
	f.StringVar(&req.RoutingKey, "key", "", "the routing key, instead of headers")
	f.StringVar(&method, "method", "GET", "the method of the request (routes of a mesh can match by it)")
	f.Uint32Var(&req.WorkloadPort, "port", 0, "with KIND/NAMESPACE/NAME: the port that the workload listens on (default: any)")
	f.StringVar(&req.Pod, "pod", "", "check only the sidecar of this pod of the baseline, `NAMESPACE/NAME`, and whether it is outdated (default: all pods)")
	f.StringVar(&at, "at", "", "the `version` to explain (default: the newest)")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if req.Headers, err = headersOf(headers); err != nil {
			return err
		}
		if req.At, err = parse.At(at, s.Now()); err != nil {
			return err
		}
		req.Target = &routingv1.ExplainRequest_Destination{Destination: args[0]}
		if w, ok := parse.Workload(args[0]); ok {
			req.Target = &routingv1.ExplainRequest_Baseline{Baseline: w}
		}
		return explain(c.Context(), s, req, method)
	}
	return c
}

func headersOf(lines []string) ([]*routingv1.Header, error) {
	var out []*routingv1.Header
	for _, l := range lines {
		name, value, ok := strings.Cut(l, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, exit.Usage.Errorf("--header is 'name: value', not %q", l)
		}
		out = append(out, &routingv1.Header{Name: strings.TrimSpace(name), Value: strings.TrimPrefix(value, " ")})
	}
	return out, nil
}

func explain(ctx context.Context, s *command.Session, req *routingv1.ExplainRequest, method string) error {
	got, err := command.Ask(ctx, s, routingv1.RoutingClient.Explain, req)
	if err != nil {
		return err
	}
	answers := append([]*routingv1.ExplainResponse{got}, got.GetOthers()...)
	meshes := make([]explanation.Mesh, len(answers))
	for i, e := range answers {
		if e.GetVerdict() == routingv1.Verdict_NO_SIDECAR && isNewest(req) {
			asked := proto.CloneOf(req)
			asked.Headers = append(asked.Headers, &routingv1.Header{Name: explanation.Method, Value: method})
			meshes[i] = byMesh(ctx, s, asked, e)
		}
	}
	text := func(e *routingv1.ExplainResponse) string {
		out := s.Show.Explanation(routedBy(meshes[0], e)) + linesOf(meshes[0])
		for i, other := range e.GetOthers() {
			out += s.Show.OtherExplanation(routedBy(meshes[i+1], other)) + linesOf(meshes[i+1])
		}
		return out + caveats(ctx, s, req, e)
	}
	if err := show.Answer(s.Show, got, text); err != nil {
		return err
	}
	for i, e := range answers {
		switch routedBy(meshes[i], e).GetVerdict() {
		case routingv1.Verdict_ROUTED, routingv1.Verdict_KEPT_AT_BASELINE:
		case routingv1.Verdict_TABLE_NOT_WHOLE:
			return exit.Unavailable.Silently()
		default:
			return exit.No.Silently()
		}
	}
	return nil
}

// isNewest reports whether the request selects no older version.
func isNewest(req *routingv1.ExplainRequest) bool { return req.GetAt().GetVersion() == nil }

// routedBy returns the answer of a route server about a workload without sidecars as it is beside a
// mesh: the mesh routes the request to the sandbox that holds the routing key, or does not.
func routedBy(mesh explanation.Mesh, got *routingv1.ExplainResponse) *routingv1.ExplainResponse {
	if mesh.By == "" && mesh.Lost == "" {
		return got
	}
	verdict := proto.CloneOf(got)
	to := got.GetRule().GetSandbox()
	verdict.Hint = ""
	switch {
	case mesh.Lost != "":
		verdict.Summary = fmt.Sprintf("Neither a DevMesh sidecar nor a mesh routes the request to sandbox %q, so it goes to the baseline: %s.", to, mesh.Lost)
		verdict.Hint = mesh.Remedy
	case !got.GetRule().GetReady():
		verdict.Verdict = routingv1.Verdict_NOT_READY
		verdict.Summary = fmt.Sprintf("%s routes the request to sandbox %q, which is not ready, so the request fails.", mesh.By, to)
		verdict.Hint = fmt.Sprintf("See the conditions of %s %s/%s and its pods.", got.GetRule().GetMember().GetKind(), got.GetRule().GetMember().GetNamespace(), got.GetRule().GetMember().GetName())
	case got.GetHolder() != nil:
		verdict.Verdict = routingv1.Verdict_LOST
		verdict.Summary = fmt.Sprintf("%s routes the request to sandbox %q: a younger one forks the same baseline under the routing key, and gets no request.", mesh.By, to)
		verdict.Hint = "Only one sandbox can serve a baseline under one key: remove one of the two from the route group."
	default:
		verdict.Verdict = routingv1.Verdict_ROUTED
		verdict.Summary = fmt.Sprintf("%s routes the request to sandbox %q, so no DevMesh sidecar is needed.", mesh.By, to)
	}
	return verdict
}

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
