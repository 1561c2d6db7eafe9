package encode

import (
	"fmt"
	"slices"
	"strings"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/workflows/sandboxes"
)

// meshStatus is the status of pods in the API, by their state. A sidecar that is current is ok, also while
// it is not ready. A pod that needs no sidecar has no status.
var meshStatus = map[coverage.State]v2.ClustersDevMeshWorkloadStatus{
	coverage.OK: v2.ClustersDevMeshWorkloadStatusOk, coverage.Behind: v2.ClustersDevMeshWorkloadStatusOk, coverage.NotReady: v2.ClustersDevMeshWorkloadStatusOk,
	coverage.Missing: v2.ClustersDevMeshWorkloadStatusMissing, coverage.Outdated: v2.ClustersDevMeshWorkloadStatusNeedsUpdate,
}

// DevMesh returns the workloads with a pod in one of the statuses; without any status all that have a
// pod with one.
func DevMesh(reports []coverage.Report, statuses []string) []v2.ClustersDevMeshEnabledWorkload {
	out := []v2.ClustersDevMeshEnabledWorkload{}
	for _, r := range reports {
		count := map[v2.ClustersDevMeshWorkloadStatus]int{}
		for state, pods := range r.Pods {
			count[meshStatus[state]] += len(pods)
		}
		w := v2.ClustersDevMeshEnabledWorkload{Workload: v2.WorkloadWorkload{Kind: strings.TrimPrefix(r.Workload.Kind, "Argo"), Namespace: r.Workload.Namespace, Name: r.Workload.Name}}
		wanted := len(statuses) == 0
		for _, status := range []v2.ClustersDevMeshWorkloadStatus{v2.ClustersDevMeshWorkloadStatusOk, v2.ClustersDevMeshWorkloadStatusNeedsUpdate, v2.ClustersDevMeshWorkloadStatusMissing} {
			if count[status] > 0 {
				w.StatusCounts = append(w.StatusCounts, v2.ClustersDevMeshWorkloadStatusCount{Status: status, Count: count[status]})
				wanted = wanted || slices.Contains(statuses, string(status))
			}
		}
		if wanted && len(w.StatusCounts) > 0 {
			out = append(out, w)
		}
	}
	return out
}

// Explanation returns an explanation of the status of a sandbox in a cluster: what its operator reports of it and of its
// members. report is nil if the cluster has no such object.
func Explanation(cluster string, s v2.Sandbox, report *sandboxes.Sandbox) v2.SandboxesSandboxStatusExplainResponse {
	out := v2.SandboxesSandboxStatusExplainResponse{Mode: v2.SandboxesExplainModeExplain, Status: s.Status}
	var lines []string
	switch {
	case report == nil:
		lines = append(lines, fmt.Sprintf("Cluster %s has no sandbox %s.", cluster, s.Name))
	case report.Status.Ready:
		lines = append(lines, fmt.Sprintf("Sandbox %s is ready in cluster %s.", s.Name, cluster))
	default:
		lines = append(lines, fmt.Sprintf("Sandbox %s is not ready in cluster %s (%s): %s", s.Name, cluster, report.Status.Reason, report.Status.Message))
	}
	if report != nil {
		for _, caveat := range report.Status.Caveats {
			lines = append(lines, "- "+caveat)
		}
		for _, r := range report.Resources {
			if r.Failed {
				lines = append(lines, fmt.Sprintf("- Resource %s of plugin %s has failed.", r.Name, r.Plugin))
			}
		}
	}
	out.Explanation = new(strings.Join(lines, "\n"))
	return out
}
