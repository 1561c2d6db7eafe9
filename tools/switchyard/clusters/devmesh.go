package clusters

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/plane"
)

// DevMesh returns the command for the sidecars in the clusters of a control plane.
func DevMesh(s *command.Session) *cobra.Command {
	analyze := &cobra.Command{
		Use: "analyze --cluster NAME", Short: "List the workloads that have or need the sidecar, with the state of their pods", Args: cobra.NoArgs,
		Long: `List the workloads that request the sidecar, have it or have a fork, with the number of pods in each
state. The control plane reads the cluster with the user's rights there. With a kubeconfig, switchyard
coverage reports more: the pods, and what to do about each.`,
		Example: "  switchyard devmesh analyze --cluster demo --namespace shop --status missing,needs_update",
	}
	name := named(analyze, "cluster")
	namespaces := analyze.Flags().StringSliceP("namespace", "n", nil, "only these `namespaces`")
	statuses := analyze.Flags().StringSlice("status", nil, "only workloads with pods in one of these `states`: ok, needs_update, missing")
	analyze.RunE = command.With(s, s.OpenPlane, func(ctx context.Context, p *plane.Plane, _ []string) error {
		all, err := plane.Answer[[]v2.ClustersDevMeshEnabledWorkload](p.API.AnalyzeDevMesh(ctx, p.Org, *name,
			&v2.AnalyzeDevMeshParams{Namespace: joined(*namespaces), Status: joined(*statuses)}))
		return report(s, err, all, "no workloads\n", []string{"WORKLOAD", "OK", "NEEDS UPDATE", "MISSING"}, func(w v2.ClustersDevMeshEnabledWorkload) []string {
			pods := map[v2.ClustersDevMeshWorkloadStatus]int{}
			for _, c := range w.StatusCounts {
				pods[c.Status] = c.Count
			}
			return []string{w.Workload.Kind + " " + w.Workload.Namespace + "/" + w.Workload.Name, strconv.Itoa(pods[v2.ClustersDevMeshWorkloadStatusOk]),
				strconv.Itoa(pods[v2.ClustersDevMeshWorkloadStatusNeedsUpdate]), strconv.Itoa(pods[v2.ClustersDevMeshWorkloadStatusMissing])}
		})
	})
	command.KnowPlane(analyze)
	return command.Group(&cobra.Command{Use: "devmesh", Short: "Show the sidecars in a cluster of a control plane"}, analyze)
}

// joined returns values as one parameter; nil: there are none.
func joined(values []string) *string {
	if len(values) == 0 {
		return nil
	}
	return new(strings.Join(values, ","))
}
