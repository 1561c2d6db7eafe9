// Package clusters contains the command cluster: the clusters of a control plane, and the tokens of their
// agents.
package clusters

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/show"
)

// Command returns the command of this package.
func Command(s *command.Session) *cobra.Command {
	token := command.Group(&cobra.Command{Use: "token", Short: "Manage the tokens of a cluster's agent"}, createToken(s), listTokens(s), deleteToken(s))
	c := command.Group(&cobra.Command{
		Use: "cluster", Short: "Manage the clusters of a control plane",
		Long: `Manage the clusters of a control plane (--control-plane), and the tokens with which their agents
connect. Changes need the role of an administrator.`,
	}, add(s), deleted(s), list(s), token)
	command.KnowPlane(append(c.Commands(), token.Commands()...)...)
	return c
}

// named adds the required flag for a cluster.
func named(c *cobra.Command, flag string) *string {
	name := c.Flags().String(flag, "", "the `name` of the cluster in the control plane")
	_ = c.MarkFlagRequired(flag) // it exists
	return name
}

func add(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "add --name NAME", Short: "Register a cluster, and print a token for its agent", Args: cobra.NoArgs,
		Example: "  switchyard cluster add --name demo > token\n  kubectl -n signadot create secret generic cluster-token --from-file=token  # for controlPlane.tokenSecret",
	}
	name := named(c, "name")
	c.RunE = command.With(s, s.OpenPlane, func(ctx context.Context, p *plane.Plane, _ []string) error {
		if _, err := plane.Answer[v2.Cluster](p.API.AddCluster(ctx, p.Org, *name)); err != nil {
			return err
		}
		return issue(ctx, s, p, *name, fmt.Sprintf("cluster %s is registered; its agent connects with this token, which is shown only now:\n", *name))
	})
	return c
}

func deleted(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "delete NAME", Short: "Remove a cluster from the control plane, with its tokens", Args: cobra.ExactArgs(1),
		Long: `Remove a cluster from the control plane, with its tokens: its agent is disconnected. A cluster with
sandboxes or route groups is not removed; delete them first. Objects in the cluster stay.`,
	}
	c.RunE = command.With(s, s.OpenPlane, func(ctx context.Context, p *plane.Plane, args []string) error {
		if _, err := plane.Answer[v2.EmptyResponse](p.API.DeleteCluster(ctx, p.Org, args[0])); err != nil {
			return err
		}
		_, err := io.WriteString(s.Out, show.Plain(fmt.Sprintf("cluster %s is removed\n", args[0])))
		return err
	})
	return c
}

func createToken(s *command.Session) *cobra.Command {
	c := &cobra.Command{Use: "create --cluster NAME", Short: "Create a token for a cluster's agent, and print it", Args: cobra.NoArgs}
	name := named(c, "cluster")
	c.RunE = command.With(s, s.OpenPlane, func(ctx context.Context, p *plane.Plane, _ []string) error {
		return issue(ctx, s, p, *name, "the token is shown only now:\n")
	})
	return c
}

// issue creates a token and prints it. about is for people, on standard error.
func issue(ctx context.Context, s *command.Session, p *plane.Plane, cluster, about string) error {
	token, err := plane.Answer[v2.ClusterToken](p.API.CreateClusterToken(ctx, p.Org, cluster, v2.EmptyResponse{}))
	if err != nil {
		return err
	}
	_, _ = io.WriteString(s.Err, show.Plain(about))
	return s.Show.Report(token, show.Plain(text(token.Token)+"\n"))
}

func list(s *command.Session) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the clusters of a control plane", Args: cobra.NoArgs}
	c.RunE = command.With(s, s.OpenPlane, func(ctx context.Context, p *plane.Plane, _ []string) error {
		all, err := plane.Answer[[]v2.Cluster](p.API.ListClusters(ctx, p.Org))
		return report(s, err, all, "no clusters\n", []string{"NAME", "CREATED", "OPERATOR"}, func(c v2.Cluster) []string {
			return []string{c.Name, s.Moment(c.CreatedAt), cmp.Or(c.Operator.Version, "never connected")}
		})
	})
	return c
}

func listTokens(s *command.Session) *cobra.Command {
	c := &cobra.Command{Use: "list --cluster NAME", Short: "List the tokens of a cluster's agent", Args: cobra.NoArgs}
	name := named(c, "cluster")
	c.RunE = command.With(s, s.OpenPlane, func(ctx context.Context, p *plane.Plane, _ []string) error {
		all, err := plane.Answer[[]v2.ClusterToken](p.API.ListClusterTokens(ctx, p.Org, *name))
		return report(s, err, all, "no tokens\n", []string{"ID", "TOKEN", "CREATED", "CONNECTED", "FROM"}, func(t v2.ClusterToken) []string {
			return []string{t.ID, t.MaskedValue + "…", s.Moment(t.CreatedAt), cmp.Or(s.Moment(text(t.Status.LastConnectedAt)), "never"), text(t.Status.LastConnectedIP)}
		})
	})
	return c
}

func deleteToken(s *command.Session) *cobra.Command {
	c := &cobra.Command{Use: "delete ID --cluster NAME", Short: "Delete a token of a cluster's agent", Args: cobra.ExactArgs(1)}
	name := named(c, "cluster")
	c.RunE = command.With(s, s.OpenPlane, func(ctx context.Context, p *plane.Plane, args []string) error {
		if _, err := plane.Answer[v2.EmptyResponse](p.API.DeleteClusterToken(ctx, p.Org, *name, args[0])); err != nil {
			return err
		}
		_, err := io.WriteString(s.Out, show.Plain(fmt.Sprintf("token %s of cluster %s is deleted\n", args[0], *name)))
		return err
	})
	return c
}

// report shows a list of the API.
func report[T any](s *command.Session, err error, all []T, none string, head []string, row func(T) []string) error {
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return s.Show.Report(all, none)
	}
	rows := show.Grid{head}
	for _, one := range all {
		rows = append(rows, row(one))
	}
	return s.Show.Report(all, rows.String())
}

// text returns an optional text.
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
