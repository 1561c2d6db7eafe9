package sidecars

import (
	"context"
	"fmt"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cli/show"
)

// needing returns the workloads that need a sidecar, of those without a connected one, with
// sentences that state what to do. No other workload needs one: it has no pods, or a mesh routes
// its requests. Where that is not known the workload counts as needing one.
func needing(ctx context.Context, s *session.Session, survey Survey, without []*routingv1.Workload) (out []show.Unconnected) {
	surveyed := map[string]namespaceSurvey{}
	for _, w := range without {
		in, done := surveyed[w.GetNamespace()]
		if !done {
			in = surveyNamespace(ctx, s, survey, w.GetNamespace())
			surveyed[w.GetNamespace()] = in
		}
		if todo, needs := in.needs(w); needs {
			out = append(out, show.Unconnected{Workload: w, ToDo: todo})
		}
	}
	return out
}

// namespaceSurvey is the coverage of one namespace, or why it is not known.
type namespaceSurvey struct {
	coverage Coverage
	err      error
}

func surveyNamespace(ctx context.Context, s *session.Session, survey Survey, namespace string) (out namespaceSurvey) {
	if survey == nil || s.Archive != "" {
		out.err = fmt.Errorf("the cluster was not read")
		return out
	}
	access, err := s.Cluster.Rest()
	if err != nil {
		out.err = err
		return out
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	// No sidecar of the workloads asked about is connected.
	ask := Question{Namespace: namespace, Operator: s.Cluster.Namespace, Connected: map[string]bool{}}
	out.coverage, out.err = survey(ctx, access, ask)
	return out
}

// needs reports whether a workload needs a sidecar, and returns what to do about it.
func (n namespaceSurvey) needs(of *routingv1.Workload) (todo []string, needs bool) {
	if n.err != nil {
		return []string{fmt.Sprintf("Whether it needs one is not known (%v): run switchyard coverage -n %s with a kubeconfig that can read pods and Deployments.", n.err, of.GetNamespace())}, true
	}
	for _, w := range n.coverage.Workloads {
		if w.Kind == of.GetKind() && w.Namespace == of.GetNamespace() && w.Name == of.GetName() {
			return append(w.ToDo, n.coverage.Unknown...), len(w.NotNeeded) < w.Pods
		}
	}
	return append([]string{fmt.Sprintf("Annotate its pod template with sidecar.signadot.com/inject: \"true\", and see switchyard coverage -n %s.", of.GetNamespace())},
		n.coverage.Unknown...), true
}
