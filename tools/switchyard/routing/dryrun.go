package routing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/dryrun"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// maxFile bounds the file that a dry run reads.
const maxFile = 4 << 20

// planned is a plan as it is shown. In JSON all are lists, also when they are empty.
type planned struct {
	Objects  []string        `json:"objects"`
	Refusals []string        `json:"refusals"`
	Findings []string        `json:"findings"`
	Unknown  []string        `json:"unknown"`
	InTheWay bool            `json:"inTheWay"`
	Table    json.RawMessage `json:"table"`

	// statements are the facts that would be put on the log.
	statements []event.Fact
}

// planOf returns a plan as it is shown.
func planOf(p dryrun.Plan) planned {
	out := planned{Objects: []string{}, Refusals: []string{}, Findings: []string{}, Unknown: append([]string{}, p.Unknown...), statements: p.Statements,
		InTheWay: len(p.Refusals) > 0 || slices.ContainsFunc(p.Findings, dryrun.Finding.InTheWay)}
	for _, r := range p.Refusals {
		out.Refusals = append(out.Refusals, fmt.Sprintf("%s: %s", r.Object, r.Message))
	}
	for _, c := range p.Changes {
		out.Objects = append(out.Objects, string(c.Action)+" "+c.Object.String())
	}
	for _, f := range p.Findings {
		out.Findings = append(out.Findings, fmt.Sprintf("%s: %s is %s (%s): %s", f.Object, f.Type, f.Status, f.Reason, f.Message))
	}
	return out
}

// DryRun returns the command that shows the effect of objects on routing.
func DryRun(s *command.Session) *cobra.Command {
	var file string
	var remove, differs bool
	c := &cobra.Command{
		Use:   "dry-run (-f FILE [--delete] | --delete KIND NAME|NAMESPACE/NAME)",
		Short: "Show the changes that objects would cause, applied or deleted",
		Long: `Show the effects of applying or deleting objects without doing it: whether the API
server would accept them, which objects the operator would write, which problems it
would report, and which routing decisions would change. Nothing is written anywhere.
The cluster and the operator's configuration are read with your kubeconfig, and the
API server is called with dryRun=All; objects and requests that your rights do not
allow are listed. With Istio or the Gateway API enabled, the VirtualServices and
derived routes that would be written are listed too; a workload that they route needs
no sidecar. FILE contains objects in YAML or JSON, which are applied in order; - is
standard input.

Exit code 6 if the result would not work: the API server would reject an object, or
the operator would report a problem that a user has to fix. Otherwise 0, also if there
are changes; with --exit-code, changes exit with 1, as in kubectl diff.`,
		Example: `  switchyard dry-run -f sandbox.yaml
  switchyard dry-run --delete signadotsandbox new-customer
  switchyard dry-run --delete forkedworkload shop/customer-1`,
		Args: cobra.RangeArgs(0, 2),
	}
	f := c.Flags()
	f.StringVarP(&file, "filename", "f", "", "the `file` with the objects, or -")
	f.BoolVar(&remove, "delete", false, "show the effects of deleting them")
	f.BoolVar(&differs, "exit-code", false, "exit with 1 when an object or a decision would change")
	c.RunE = func(c *cobra.Command, args []string) error {
		ask, err := question(s, file, remove, args)
		if err != nil {
			return err
		}
		return dryRun(c.Context(), s, ask, differs)
	}
	return c
}

// question reads what the arguments ask about.
func question(s *command.Session, file string, remove bool, args []string) (dryrun.Question, error) {
	ask := dryrun.Question{Delete: remove, Operator: s.Cluster.Namespace}
	switch {
	case file != "" && len(args) > 0:
		return ask, exit.Usage.Errorf("give the objects by -f FILE or by its kind and name, not by both")
	case file == "" && (len(args) != 2 || !remove):
		return ask, exit.Usage.Errorf("give -f FILE, or --delete KIND NAME")
	case file == "":
		ask.Kind, ask.Name = args[0], args[1]
		if namespace, name, ok := strings.Cut(args[1], "/"); ok {
			ask.Namespace, ask.Name = namespace, name
		}
		return ask, nil
	}
	in := s.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return ask, exit.Usage.Errorf("%w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return ask, fmt.Errorf("read the file: %w", err)
	case len(text) > maxFile:
		return ask, exit.Usage.Errorf("the file is larger than %d bytes", maxFile)
	}
	ask.Text = text
	return ask, nil
}

func dryRun(ctx context.Context, s *command.Session, ask dryrun.Question, differs bool) error {
	access, err := s.Cluster.Rest()
	if err != nil {
		return exit.Unavailable.Errorf("a dry run reads the cluster: %w", err)
	}
	client, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	plan, err := asked(ctx, access, ask)
	if err != nil {
		return err
	}
	got, err := whatIf(ctx, client, plan)
	if err != nil {
		return err
	}
	if plan.Table, err = show.Written(got); err != nil {
		return err
	}
	if err := s.Show.Report(plan, planText(s.Show, plan, show.ForPeople(got))); err != nil {
		return err
	}
	if plan.InTheWay {
		return exit.InTheWay.Silently()
	}
	return exit.No.Unless(!differs || len(plan.Objects)+len(got.GetChanges()) == 0)
}

// asked returns the plan of a dry run. An error in the question is one of usage.
func asked(ctx context.Context, access *rest.Config, ask dryrun.Question) (planned, error) {
	c, err := command.Client(access)
	if err != nil {
		return planned{}, err
	}
	p, err := dryrun.Ask(ctx, c, ask)
	if errors.Is(err, dryrun.ErrInvalid) || errors.Is(err, dryrun.ErrNotSupported) || errors.Is(err, dryrun.ErrNoObject) {
		err = fmt.Errorf("%w: %w", exit.ErrUsage, err)
	}
	if err != nil {
		return planned{}, err
	}
	return planOf(p), nil
}

// whatIf requests the table that would result if the facts of a plan were published.
func whatIf(ctx context.Context, client routingv1.RoutingClient, p planned) (*routingv1.DryRunResponse, error) {
	if len(p.statements) == 0 {
		kept, err := client.Kept(ctx, &routingv1.KeptRequest{})
		return &routingv1.DryRunResponse{Version: kept.GetNewest()}, err
	}
	req := &routingv1.DryRunRequest{}
	for _, f := range p.statements {
		req.Statements = append(req.Statements, messages.Statement(f.Data))
	}
	return client.DryRun(ctx, req)
}

// planText returns a plan as text.
func planText(p *show.Printer, plan planned, r *routingv1.DryRunResponse) string {
	var b strings.Builder
	part := func(title, none string, lines []string) {
		if len(lines) == 0 {
			fmt.Fprintf(&b, "%s\n", none)
			return
		}
		fmt.Fprintf(&b, "%s\n", title)
		for _, l := range lines {
			fmt.Fprintf(&b, "  %s\n", l)
		}
	}
	if len(plan.Refusals) > 0 {
		part("the API server would refuse:", "", show.Lines(plan.Refusals))
	}
	part("these objects would be written:", "no object would be written", show.Lines(plan.Objects))
	if len(plan.Findings) > 0 || len(plan.Refusals) == 0 {
		part("the operator would report:", "the operator would report no problem", show.Lines(plan.Findings))
	}
	var conflicts, changes []string
	starts := false
	for _, c := range r.GetConflicts() {
		conflicts = append(conflicts, show.Conflict(c))
	}
	for _, c := range r.GetChanges() {
		changes = append(changes, strings.Split(strings.TrimSuffix(p.Change(c), "\n"), "\n")...)
		starts = starts || c.GetOld() == nil && !c.GetNew().GetReady()
	}
	if len(conflicts) > 0 {
		part("there would be conflicts:", "", conflicts)
	}
	part("these routes would change:", "no route would change", changes)
	if starts {
		b.WriteString("what would be new is shown as it begins: not ready, and without an address, until its pods are\n")
	}
	if len(plan.Unknown) > 0 {
		part("not known:", "", show.Lines(plan.Unknown))
	}
	fmt.Fprintf(&b, "\nas seen from %s\n", p.Version(r.GetVersion()))
	return b.String()
}
