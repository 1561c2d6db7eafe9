package sandboxes

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/sandboxes"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// groupKind is the kind of route groups.
var groupKind = kind{Kind: sandboxes.Groups, command: "routegroup", text: groupText, listed: listedGroups}

func applyGroup(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Example: "  switchyard routegroup apply -f group.yaml",
		Long: `Create or change a route group. spec.match is evaluated now, and the sandboxes that it
matches become the members of the group: sandboxes that match later are not added until the
file is applied again. A sandbox has the labels of spec.labels in its file, or else those of
its object.`,
	}
	return groupKind.apply(s, c, func(in *input) (func(context.Context, client.Client) (crdv1.Object, error), error) {
		var asked spec.Group
		f, err := in.read(s, &asked)
		return func(ctx context.Context, cluster client.Client) (crdv1.Object, error) {
			return writeGroup(ctx, s, cluster, f, asked)
		}, err
	})
}

// writeGroup applies a route group, and prints its sandboxes.
func writeGroup(ctx context.Context, s *command.Session, cluster client.Client, f *specfile.File, asked spec.Group) (crdv1.Object, error) {
	text, err := f.JSON("spec")
	if err != nil {
		return nil, err
	}
	out, err := sandboxes.ApplyGroup(ctx, cluster, asked, text, s.Now())
	unstored(s, out)
	if err != nil {
		return nil, groupKind.refused(s, f, asked.Name, err)
	}
	noteAll(s, f, out.Notes)
	_, _ = fmt.Fprintln(s.Err, show.Plain(fmt.Sprintf("route group %s has the sandboxes that match now: %s", asked.Name, strings.Join(out.Matched, ", "))))
	if len(out.Left) > 0 {
		_, _ = fmt.Fprintln(s.Err, show.Plain("no longer in it: "+strings.Join(out.Left, ", ")))
	}
	_, _ = fmt.Fprintln(s.Err, "note: sandboxes that match later are not added; apply the file again to add them")
	return out.Object, nil
}

// groupText returns a route group as text.
func groupText(s *command.Session, of sandboxes.Report) string {
	r := of.(sandboxes.Group)
	rows := show.Grid{{"Name:", r.Name}, {"Routing key:", r.RoutingKey}}
	for _, row := range []struct{ title, value string }{
		{"Description:", r.Description}, {"Created:", Moment(s, r.CreatedAt)}, {"Changed:", Moment(s, r.UpdatedAt)}, {"Author:", r.Author},
		{"Sandboxes:", strings.Join(r.Status.MatchedSandboxes, ", ")},
	} {
		if row.value != "" {
			rows = append(rows, []string{row.title, row.value})
		}
	}
	for _, e := range r.Endpoints {
		rows = append(rows, []string{"Endpoint:", e.Name + " " + e.Target})
	}
	return rows.String() + statusLine(r.Status.Status, len("Routing key:  "))
}

// listedGroups returns reports as a table.
func listedGroups(s *command.Session, reports []sandboxes.Report) string {
	rows := show.Grid{{"NAME", "KEY", "READY", "REASON", "SANDBOXES", "AUTHOR", "CREATED"}}
	for _, one := range reports {
		r := one.(sandboxes.Group)
		ready := map[bool]string{true: "yes", false: "no"}[r.Status.Ready]
		members := fmt.Sprintf("%d of %d ready", r.Status.ReadySandboxes, len(r.Status.MatchedSandboxes))
		rows = append(rows, []string{r.Name, r.RoutingKey, ready, r.Status.Reason, members, r.Author, Moment(s, r.CreatedAt)})
	}
	return rows.String()
}
