package forkedworkload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/variables"
)

// indexNamesForks finds, by sandbox, the ForkedWorkloads with patches that refer to other forks.
const indexNamesForks = "namesForksOfSandbox"

func sandboxOfNaming(o client.Object) []string {
	w, ok := o.(*crdv1.ForkedWorkload)
	if !ok || len(fork.Siblings(w.Spec.Patches)) == 0 {
		return nil
	}
	return notEmpty(w.Labels[crdv1.LabelSandbox])
}

// readSiblings reads the other forks of the sandbox, if patches name any.
func (in *Input) readSiblings(ctx context.Context, c client.Reader) error {
	sandbox := in.Workload.Labels[crdv1.LabelSandbox]
	if sandbox == "" || len(fork.Siblings(in.Workload.Spec.Patches)) == 0 {
		return nil
	}
	var all crdv1.ForkedWorkloadList
	if err := c.List(ctx, &all, client.MatchingLabels{crdv1.LabelSandbox: sandbox}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the forks of sandbox %s: %w", sandbox, err)
	}
	in.Siblings = all.Items
	return nil
}

// sibling is another fork that patches name.
type sibling struct {
	baseline string
	variables.Reached
	// of is the Service of the baseline that Host replaces, one of all.
	of  string
	all []string
}

// siblings returns the forks of the sandbox that patches name.
func (in Input) siblings() []sibling {
	var out []sibling
	named := fork.Siblings(in.Workload.Spec.Patches)
	for i := range in.Siblings {
		w := &in.Siblings[i]
		ref, _ := w.BaselineRef()
		name := ref.Kind + "/" + ref.Namespace + "/" + ref.Name
		if !slices.Contains(named, name) || w.DeletionTimestamp != nil {
			continue
		}
		s := sibling{baseline: name}
		s.Reached, s.of, s.all = variables.ReachedBy(w)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b sibling) int { return cmp.Compare(a.baseline, b.baseline) })
	return out
}

func mappingsOf(w *crdv1.ForkedWorkload) []crdv1.ServiceMapping {
	if w.Status.RoutingConfig == nil {
		return nil
	}
	return w.Status.RoutingConfig.Services
}

// reachedSiblings returns the variables for other forks, by baseline.
func (in Input) reachedSiblings() map[string]variables.Reached {
	out := map[string]variables.Reached{}
	for _, s := range in.siblings() {
		out[s.baseline] = s.Reached
	}
	return out
}

// chosen returns the end of a message: the Services that the patches refer to where another fork has
// several.
func (in Input) chosen() string {
	var out strings.Builder
	for _, s := range in.siblings() {
		if len(s.all) > 1 {
			fmt.Fprintf(&out, " Of the Services of the fork of %s (%s) the patches name that of %s.", s.baseline, strings.Join(s.all, ", "), s.of)
		}
	}
	return out.String()
}

// bySibling maps a fork to the forks of its sandbox with patches that refer to other forks.
func (r *Reconciler) bySibling(ctx context.Context, o client.Object) []reconcile.Request {
	sandbox := o.GetLabels()[crdv1.LabelSandbox]
	if sandbox == "" {
		return nil
	}
	return r.find(ctx, client.MatchingFields{indexNamesForks: sandbox})
}

// servicesChanged filters out updates of a fork that do not change its Services.
func servicesChanged(before, after client.Object) bool {
	b, okB := before.(*crdv1.ForkedWorkload)
	a, okA := after.(*crdv1.ForkedWorkload)
	return !okB || !okA || !equality.Semantic.DeepEqual(mappingsOf(b), mappingsOf(a)) || b.Labels[crdv1.LabelSandbox] != a.Labels[crdv1.LabelSandbox] ||
		(b.DeletionTimestamp == nil) != (a.DeletionTimestamp == nil)
}
