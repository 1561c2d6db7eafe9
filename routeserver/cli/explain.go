package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func (a *app) explainCommand() *cobra.Command {
	req := &routingv1.ExplainRequest{}
	var headers []string
	var at string
	c := &cobra.Command{
		Use:   "explain DESTINATION | KIND/NAMESPACE/NAME",
		Short: "Say where a request goes, and why",
		Long: `Say where a request goes, and why; and where a route is missing, what is missing
and since when. DESTINATION is what a client calls, host:port of a Service or its
cluster IP. With the headers of a request the routing key is taken out of them as
a sidecar does; or name the key itself.

With --pod the text also says whether that pod's sidecar is outdated, which the cluster
tells; -o json has the route server's answer alone (coverage -o json has the other).

Exit code 0 when the request is routed to the sandbox of its key, or stays at the
baseline because that sandbox wants it so; 1 when not.`,
		Example: `  switchyard explain customer.shop:8081 --key k7q2m9x4v1tz8
  switchyard explain customer.shop:8081 -H 'baggage: sd-routing-key=k7q2m9x4v1tz8'
  switchyard explain deployment/shop/customer --key k7q2m9x4v1tz8 --at 14:03
  switchyard explain deployment/shop/customer --key k7q2m9x4v1tz8 --pod shop/customer-7d4b9-x2x`,
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.StringArrayVarP(&headers, "header", "H", nil, "a header of the request, `'name: value'`; may be given again")
	f.StringVar(&req.RoutingKey, "key", "", "the routing key, instead of headers")
	f.Uint32Var(&req.WorkloadPort, "port", 0, "with KIND/NAMESPACE/NAME: the port that the workload listens on; any")
	f.StringVar(&req.Pod, "pod", "", "ask about the sidecar of this pod of the baseline, `NAMESPACE/NAME`, and whether it is outdated; all of them")
	f.StringVar(&at, "at", "", "the `version` to explain; the newest")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if req.Headers, err = headersOf(headers); err != nil {
			return err
		}
		if req.At, err = a.at(at); err != nil {
			return err
		}
		req.Target = &routingv1.ExplainRequest_Destination{Destination: args[0]}
		if w, ok := baseline(args[0]); ok {
			req.Target = &routingv1.ExplainRequest_Baseline{Baseline: w}
		}
		return a.explain(c.Context(), req)
	}
	return c
}

func headersOf(lines []string) ([]*routingv1.Header, error) {
	var out []*routingv1.Header
	for _, l := range lines {
		name, value, ok := strings.Cut(l, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage("--header is 'name: value', not %q", l)
		}
		out = append(out, &routingv1.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return out, nil
}

func (a *app) explain(ctx context.Context, req *routingv1.ExplainRequest) error {
	client, err := a.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
	defer cancel()
	got, err := client.Explain(ctx, req)
	if err != nil {
		return err
	}
	text := func(e *routingv1.ExplainResponse) string {
		return a.explainText(e) + a.unfitText(req.GetRoutingKey()) + a.outdatedText(ctx, req)
	}
	if err := print(a, got, text); err != nil {
		return err
	}
	switch got.GetVerdict() {
	case routingv1.Verdict_ROUTED, routingv1.Verdict_KEPT_AT_BASELINE:
		return nil
	case routingv1.Verdict_TABLE_NOT_WHOLE:
		return &exit{code: ExitUnavailable}
	}
	return errNo
}

func (a *app) explainText(e *routingv1.ExplainResponse) string {
	colour := red
	if v := e.GetVerdict(); v == routingv1.Verdict_ROUTED || v == routingv1.Verdict_KEPT_AT_BASELINE {
		colour = green
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n\n", a.paint(colour, e.GetVerdict().String()), e.GetSummary())
	rows := grid{}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if e.GetRoutingKey() != "" {
		from := "as asked"
		if e.GetKeyFrom() != "" {
			from = "from header " + e.GetKeyFrom()
		}
		add("key", e.GetRoutingKey()+", "+from)
	}
	if e.GetBaseline() != nil {
		port := ""
		if e.GetWorkloadPort() != 0 {
			port = fmt.Sprintf(", port %d", e.GetWorkloadPort())
		}
		add("baseline", nameOf(e.GetBaseline())+port)
	}
	if e.GetRule() != nil {
		add("rule", ruleLine(e.GetRule(), nil))
	}
	if e.GetHolder() != nil {
		add("held by", nameOf(e.GetHolder())+" of sandbox "+e.GetHolderSandbox())
	}
	for i, event := range e.GetBecause() {
		lines := a.because(event)
		add([]string{"because", ""}[min(i, 1)], lines[0])
		add("", lines[1])
	}
	for i, s := range e.GetLagging() {
		add([]string{"lagging", ""}[min(i, 1)], sidecarLine(s))
	}
	if e.GetVersion() != nil {
		add("version", a.versionLine(e.GetVersion()))
	}
	if e.GetHint() != "" {
		add("to do", e.GetHint())
	}
	return b.String() + rows.String()
}

// unfitText returns a line for people when some header cannot carry the key that was
// asked for.
func (a *app) unfitText(key string) string {
	if key == "" || a.Unfit == nil {
		return ""
	}
	if why := a.Unfit(key); why != "" {
		return plain(why) + "\n"
	}
	return ""
}

// outdatedText returns a line for people when the sidecar of the pod that is asked
// about was injected with other settings than a new pod would get, or when nobody
// knows. Only the cluster tells: an archive does not, and needs no line.
func (a *app) outdatedText(ctx context.Context, req *routingv1.ExplainRequest) string {
	namespace, _, named := strings.Cut(req.GetPod(), "/")
	if !named || a.flags.archive != "" || req.GetAt().GetVersion() != nil {
		return ""
	}
	unknown := func(err error) string {
		return fmt.Sprintf("Whether the sidecar of pod %s is outdated is not known: %s\n", req.GetPod(), plain(err.Error()))
	}
	access, err := a.flags.cluster.Rest()
	if err != nil {
		return unknown(err)
	}
	got, err := a.Coverage(ctx, access, CoverageRequest{Namespace: namespace, Operator: a.flags.cluster.Namespace})
	if err != nil {
		return unknown(err)
	}
	return outdatedIn(got, req.GetPod())
}

// outdatedIn returns what a coverage says of a pod, namespace/name, whose sidecar is
// outdated; empty when it is not.
func outdatedIn(c Coverage, pod string) string {
	for _, w := range c.Workloads {
		for _, name := range w.Outdated {
			if w.Namespace+"/"+name == pod {
				return fmt.Sprintf("Pod %s is OUTDATED: it was injected with another %s than now. Restart it: %s\n",
					pod, plain(strings.Join(w.Differ[name], ", ")), plain(w.Restart))
			}
		}
	}
	return ""
}
