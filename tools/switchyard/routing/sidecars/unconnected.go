package sidecars

import (
	"context"
	"fmt"
	"slices"
	"strings"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/reconcilers/survey"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
)

// needing returns the workloads that need a sidecar, of those without a connected one, with
// sentences that state what to do. No other workload needs one: it has no pods, or a mesh routes
// its requests. Where that is not known the workload counts as needing one.
func needing(ctx context.Context, s *command.Session, without []*routingv1.Workload) (out []show.Unconnected) {
	surveyed := map[string]namespaceSurvey{}
	for _, w := range without {
		in, done := surveyed[w.GetNamespace()]
		if !done {
			in = surveyNamespace(ctx, s, w.GetNamespace())
			surveyed[w.GetNamespace()] = in
		}
		if todo, needs := in.needs(w); needs {
			out = append(out, show.Unconnected{Workload: w, ToDo: todo})
		}
	}
	return out
}

// Unconnected returns lines about a workload without connected sidecars, from the objects in the
// cluster: no pod serves its requests, its pods belong to another workload, or the remedy.
func Unconnected(ctx context.Context, s *command.Session, of *routingv1.Workload) (lines string) {
	if s.Archive != "" {
		return ""
	}
	in := surveyNamespace(ctx, s, of.GetNamespace())
	if in.err != nil {
		return show.Line(fmt.Sprintf("Whether it has pods is not known: %v", in.err)) + "\n"
	}
	todo, _ := in.needs(of)
	if pods, refused := in.pods(of); pods == 0 {
		todo = append([]string{in.absent(of)}, refused...)
	}
	for _, line := range todo {
		lines += show.Line(strings.ToUpper(line[:1])+line[1:]) + "\n"
	}
	return lines
}

// pods returns how many pods a workload has, and what to do about it. Workloads that coverage does not
// list have pods too.
func (n namespaceSurvey) pods(of *routingv1.Workload) (int, []string) {
	for _, w := range n.all() {
		if w.Kind == of.GetKind() && w.Namespace == of.GetNamespace() && w.Name == of.GetName() {
			return w.Pods, w.ToDo
		}
	}
	return 0, nil
}

// all returns all workloads with pods, listed by coverage or not.
func (n namespaceSurvey) all() []Workload {
	return slices.Concat(n.coverage.Workloads, n.coverage.Others)
}

// absent states that a workload has no pods, and which workload of its name has some.
func (n namespaceSurvey) absent(of *routingv1.Workload) string {
	for _, w := range n.all() {
		if w.Kind != of.GetKind() && w.Namespace == of.GetNamespace() && w.Name == of.GetName() && w.Pods > 0 {
			return fmt.Sprintf("%s %s/%s has no pods: those behind its Services belong to %s %s/%s. Name that in the sandbox.",
				of.GetKind(), of.GetNamespace(), of.GetName(), w.Kind, w.Namespace, w.Name)
		}
	}
	kind := map[string]string{"Deployment": "deployment", "ArgoRollout": "rollout.argoproj.io"}[of.GetKind()]
	return fmt.Sprintf("%s %s/%s has no pods, so nothing answers the request. Scale it up, or see kubectl describe -n %s %s/%s.",
		of.GetKind(), of.GetNamespace(), of.GetName(), of.GetNamespace(), kind, of.GetName())
}

// namespaceSurvey is the coverage of one namespace, or why it is not known.
type namespaceSurvey struct {
	coverage Coverage
	err      error
}

func surveyNamespace(ctx context.Context, s *command.Session, namespace string) (out namespaceSurvey) {
	if s.Archive != "" {
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
	ask := survey.Question{Namespace: namespace, Operator: s.Cluster.Namespace, Connected: map[string]bool{}}
	out.coverage, out.err = coverageOf(ctx, access, ask)
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
