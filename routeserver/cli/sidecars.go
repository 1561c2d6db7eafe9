package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func (a *app) sidecarsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sidecars",
		Short: "List the sidecars, and what each has acknowledged",
		Long: `List the DevMesh sidecars that are connected to any route server, and whether each
has acknowledged the rules that it is to have. Exit code 1 when one has not, or a
route server did not say.`,
		Args: cobra.NoArgs,
	}
	filter := filterFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		client, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), a.flags.patience)
		defer cancel()
		got, err := client.Sidecars(ctx, &routingv1.SidecarsRequest{Filter: f})
		if err != nil {
			return err
		}
		if err := print(a, got, a.sidecarsText); err != nil {
			return err
		}
		for _, s := range got.GetSidecars() {
			if !s.GetCurrent() {
				return errNo
			}
		}
		if len(got.GetSilent()) > 0 {
			return errNo
		}
		return nil
	}
	return c
}

func (a *app) sidecarsText(r *routingv1.SidecarsResponse) string {
	return sidecarRows(r.GetSidecars()) + silentLines(a, r.GetSilent()) + many(len(r.GetSidecars()), "sidecar") + "\n"
}

func sidecarRows(sidecars []*routingv1.Sidecar) string {
	if len(sidecars) == 0 {
		return ""
	}
	rows := grid{{"POD", "BASELINE", "CURRENT", "REACHED", "ROUTE SERVER", "REFUSED"}}
	for _, s := range sidecars {
		current, reached := "yes", "-"
		if !s.GetCurrent() {
			current = "no"
		}
		if s.GetReached() != nil {
			reached = place(s.GetReached())
		}
		rows = append(rows, []string{s.GetNamespace() + "/" + s.GetPod(), nameOf(s.GetBaseline()), current, reached, s.GetRouteServer(), s.GetRejected()})
	}
	return rows.String() + "\n"
}

func silentLines(a *app, silent []string) string {
	out := ""
	for _, s := range silent {
		out += a.paint(yellow, fmt.Sprintf("the route server at %s did not answer: its sidecars are missing here", s)) + "\n"
	}
	return out
}

func sidecarLine(s *routingv1.Sidecar) string {
	out := fmt.Sprintf("%s/%s of %s has not acknowledged it", s.GetNamespace(), s.GetPod(), nameOf(s.GetBaseline()))
	if s.GetReached() != nil {
		out += ", only what was at " + place(s.GetReached())
	}
	if s.GetRejected() != "" {
		out += ", and refused: " + s.GetRejected()
	}
	return out
}
