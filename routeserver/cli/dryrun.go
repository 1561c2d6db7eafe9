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

// maxFile bounds the file that a dry run reads.
const maxFile = 4 << 20

func (a *app) dryRunCommand() *cobra.Command {
	var file string
	var remove, differs bool
	c := &cobra.Command{
		Use:   "dry-run (-f FILE [--delete] | --delete KIND NAME|NAMESPACE/NAME)",
		Short: "Say what would change if objects were applied or deleted",
		Long: `Say what would change if objects were applied, or deleted: whether the API server
would take them, which objects the operator would write, what it would find wrong,
and which decisions of the table would become others. Nothing is written anywhere.
The cluster, and the operator's configuration in it, are read with your kubeconfig,
and the API server is asked with dryRun=All; what you may not read or ask is said.
FILE holds objects in YAML or JSON, which are taken in order; - is standard input.

Exit code 6 when it would not work as it is: the API server would refuse an object, or
the operator would report what somebody has to mend. Otherwise 0, also when something
would change; with --exit-code 1 then, as kubectl diff has it.`,
		Example: `  switchyard dry-run -f sandbox.yaml
  switchyard dry-run --delete signadotsandbox new-customer
  switchyard dry-run --delete forkedworkload shop/customer-1`,
		Args: cobra.RangeArgs(0, 2),
	}
	f := c.Flags()
	f.StringVarP(&file, "filename", "f", "", "the `file` with the objects, or -")
	f.BoolVar(&remove, "delete", false, "say what would change if they were deleted")
	f.BoolVar(&differs, "exit-code", false, "exit with 1 when an object or a decision would change")
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
	ask := PlanRequest{Delete: remove, Operator: a.flags.cluster.Namespace}
	switch {
	case file != "" && len(args) > 0:
		return ask, usage("give the objects by -f FILE or by its kind and name, not by both")
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
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return ask, fmt.Errorf("read the file: %w", err)
	case len(text) > maxFile:
		return ask, usage("the file is larger than %d bytes", maxFile)
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
	report := dryRunReport{
		Objects: orNone(plan.Objects), Refusals: orNone(plan.Refusals), Findings: orNone(plan.Findings),
		Unknown: orNone(plan.Unknown), InTheWay: plan.InTheWay,
	}
	if report.Table, err = written(got); err != nil {
		return err
	}
	if err := a.printReport(report, a.dryRunText(plan, forPeople(got))); err != nil {
		return err
	}
	switch {
	case plan.InTheWay:
		return errInTheWay
	case differs && len(plan.Objects)+len(got.GetChanges()) > 0:
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

// orNone returns a list that is a list in JSON too.
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
	if len(p.Refusals) > 0 {
		part("the API server would refuse:", "", allPlain(p.Refusals))
	}
	part("these objects would be written:", "no object would be written", allPlain(p.Objects))
	if len(p.Findings) > 0 || len(p.Refusals) == 0 {
		part("the operator would report:", "the operator would find nothing wrong", allPlain(p.Findings))
	}
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
	if len(p.Unknown) > 0 {
		part("not known:", "", allPlain(p.Unknown))
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
