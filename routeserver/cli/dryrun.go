package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// maxObject bounds the object that a dry run reads.
const maxObject = 4 << 20

func (a *app) dryRunCommand() *cobra.Command {
	var file string
	var remove, differs bool
	c := &cobra.Command{
		Use:   "dry-run (-f FILE [--delete] | --delete KIND NAME|NAMESPACE/NAME)",
		Short: "Say what would change if an object were applied or deleted",
		Long: `Say what would change if an object were applied, or deleted: which objects the
operator would write, what it would find wrong, and which decisions of the table
would become others. Nothing is written anywhere. The cluster is read with your
kubeconfig. FILE holds one object in YAML or JSON; - is standard input.`,
		Example: `  switchyard dry-run -f sandbox.yaml
  switchyard dry-run --delete signadotsandbox new-customer
  switchyard dry-run --delete forkedworkload shop/customer-1`,
		Args: cobra.RangeArgs(0, 2),
	}
	f := c.Flags()
	f.StringVarP(&file, "filename", "f", "", "the `file` with the object, or -")
	f.BoolVar(&remove, "delete", false, "say what would change if it were deleted")
	f.BoolVar(&differs, "exit-code", false, "exit with 1 when a decision would change")
	c.RunE = func(c *cobra.Command, args []string) error {
		ask, err := a.planRequest(file, remove, args)
		if err != nil {
			return err
		}
		return a.dryRun(c.Context(), ask, differs)
	}
	return c
}

func (a *app) planRequest(file string, remove bool, args []string) (PlanRequest, error) {
	ask := PlanRequest{Delete: remove}
	switch {
	case file != "" && len(args) > 0:
		return ask, usage("give the object by -f FILE or by its kind and name, not by both")
	case file == "" && (len(args) != 2 || !remove):
		return ask, usage("give -f FILE, or --delete KIND NAME")
	case file == "":
		ask.Kind, ask.Name = args[0], args[1]
		if namespace, name, ok := strings.Cut(args[1], "/"); ok {
			ask.Namespace, ask.Name = namespace, name
		}
		return ask, nil
	}
	in := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return ask, &exit{ExitUsage, err}
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxObject+1))
	switch {
	case err != nil:
		return ask, fmt.Errorf("read the object: %w", err)
	case len(text) > maxObject:
		return ask, usage("the object is larger than %d bytes", maxObject)
	}
	ask.Text = text
	return ask, nil
}

func (a *app) dryRun(ctx context.Context, ask PlanRequest, differs bool) error {
	access, err := a.flags.cluster.Rest()
	if err != nil {
		return &exit{ExitUnavailable, fmt.Errorf("a dry run reads the cluster: %w", err)}
	}
	client, err := a.connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
	defer cancel()
	plan, err := a.Plan(ctx, access, ask)
	if err != nil {
		return err
	}
	got, err := a.whatIf(ctx, client, plan)
	if err != nil {
		return err
	}
	report := dryRunReport{Objects: orNone(plan.Objects), Findings: orNone(plan.Findings)}
	if report.Table, err = written(got); err != nil {
		return err
	}
	if err := a.printReport(report, a.dryRunText(plan, forPeople(got))); err != nil {
		return err
	}
	if differs && len(got.GetChanges()) > 0 {
		return errNo
	}
	return nil
}

// whatIf asks what the table would be if the facts of a plan were stated.
func (a *app) whatIf(ctx context.Context, client routingv1.RoutingClient, p Plan) (*routingv1.DryRunResponse, error) {
	if len(p.Statements) == 0 {
		kept, err := client.Kept(ctx, &routingv1.KeptRequest{})
		return &routingv1.DryRunResponse{Version: kept.GetNewest()}, err
	}
	req := &routingv1.DryRunRequest{}
	for _, f := range p.Statements {
		req.Statements = append(req.Statements, says(f))
	}
	return client.DryRun(ctx, req)
}

// orNone gives a list that is a list in JSON too.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (a *app) dryRunText(p Plan, r *routingv1.DryRunResponse) string {
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
	part("the operator would write:", "the operator would write nothing", allPlain(p.Objects))
	part("it would report:", "it would find nothing wrong", allPlain(p.Findings))
	var conflicts, changes []string
	starts := false
	for _, c := range r.GetConflicts() {
		conflicts = append(conflicts, conflictLine(c))
	}
	for _, c := range r.GetChanges() {
		changes = append(changes, strings.Split(strings.TrimSuffix(a.changeText(c), "\n"), "\n")...)
		starts = starts || c.GetOld() == nil && !c.GetNew().GetReady()
	}
	if len(conflicts) > 0 {
		part("there would be conflicts:", "", conflicts)
	}
	part("these decisions would become others:", "no decision would become another one", changes)
	if starts {
		b.WriteString("what would be new is shown as it begins: not ready, and without an address, until its pods are\n")
	}
	fmt.Fprintf(&b, "\nas seen from %s\n", a.versionLine(r.GetVersion()))
	return b.String()
}

func allPlain(lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.ReplaceAll(plain(l), "\n", `\n`))
	}
	return out
}
