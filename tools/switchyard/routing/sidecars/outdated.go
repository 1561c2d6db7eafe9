package sidecars

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/reconcilers/survey"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
)

// Outdated returns a line of text when the sidecar of a pod, namespace/name, was injected with
// settings other than those of a new pod, or when that is unknown. It reads the cluster; with an
// archive it returns "".
func Outdated(ctx context.Context, s *command.Session, pod string) string {
	namespace, _, named := strings.Cut(pod, "/")
	if !named || s.Archive != "" {
		return ""
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	access, err := s.Cluster.Rest()
	var got Coverage
	if err == nil {
		got, err = coverageOf(ctx, access, survey.Question{Namespace: namespace, Operator: s.Cluster.Namespace})
	}
	if err != nil {
		return fmt.Sprintf("Whether the sidecar of pod %s is outdated is not known: %s\n", pod, show.Plain(err.Error()))
	}
	for _, w := range got.Workloads {
		if name, ok := strings.CutPrefix(pod, w.Namespace+"/"); ok && slices.Contains(w.Outdated, name) {
			return fmt.Sprintf("Pod %s is OUTDATED: %s. Restart it: %s\n",
				pod, show.Plain(w.Differences[name]), show.Plain(w.Restart))
		}
	}
	return ""
}
