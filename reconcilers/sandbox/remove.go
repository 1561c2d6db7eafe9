package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/sandbox/census"
)

// stages returns the kinds of parts in the order of deletion: the routing first, so that the key is
// withdrawn while members still serve; then members; then Resources.
func stages() [][]string {
	return [][]string{{crdv1.KindRoutingConfig}, crdv1.Names(crdv1.MemberKinds()), {crdv1.KindResource}}
}

// remove deletes the parts of a sandbox, stage by stage, and returns what it waits for, "" if no part is
// left. Before the next stage it queries the API server past the cache, which may lack the last created
// part; asked is true while that result is pending.
func remove(ctx context.Context, w apply.Writer, c *census.Census, in Input) (waitsFor string, asked bool, err error) {
	known := parts(in)
	for _, kinds := range stages() {
		left := slices.Concat(lists.Map(kinds, func(k string) []client.Object { return known[k] })...)
		if len(left) > 0 {
			c.Forget(in.Sandbox, kinds)
		} else {
			var known bool
			if left, known, err = c.Left(ctx, in.Sandbox, kinds); err != nil {
				return "", false, err
			}
			if !known {
				return "", true, nil
			}
		}
		for _, o := range left {
			if err := w.Delete(ctx, o); err != nil {
				return "", false, err
			}
		}
		if len(left) > 0 {
			return describe(in, kinds, left), false, nil
		}
	}
	return "", false, nil
}

// parts returns the parts in the cache, by kind.
func parts(in Input) map[string][]client.Object {
	out := map[string][]client.Object{}
	for i := range in.Configs {
		out[crdv1.KindRoutingConfig] = append(out[crdv1.KindRoutingConfig], &in.Configs[i])
	}
	for _, m := range in.Members {
		out[m.MemberKind()] = append(out[m.MemberKind()], m)
	}
	for _, r := range in.Resources {
		out[crdv1.KindResource] = append(out[crdv1.KindResource], r)
	}
	return out
}

// describe returns a message about the remaining parts of a stage.
func describe(in Input, kinds []string, left []client.Object) string {
	const going = "The sandbox is being deleted. "
	if kinds[0] != crdv1.KindResource {
		what := "members"
		if len(kinds) == 1 {
			what = kinds[0] + "s"
		}
		return fmt.Sprintf(going+"It waits for %d of its %s to be deleted.", len(left), what)
	}
	o := left[0]
	name := "Resource " + o.GetName()
	if r := in.resource(o.GetName()); r != nil {
		name = fmt.Sprintf("Resource %q (%s)", r.Spec.Name, name)
		if c := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady); c != nil && knowsDeletion(r) && (r.Status.Phase == phaseFailed || waitsForPerson(c)) {
			return fmt.Sprintf("%s holds the sandbox, which is being deleted: %s", name, c.Message)
		}
	}
	more := ""
	if len(left) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(left)-1)
	}
	if keep := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == crdv1.Finalizer }); len(keep) > 0 {
		return fmt.Sprintf(going+"%s%s is deleted once its delete steps have run and other controllers have removed their finalizers: %s.", name, more, strings.Join(keep, ", "))
	}
	return fmt.Sprintf(going+"%s%s is deleted once its delete steps have run.", name, more)
}

// knowsDeletion reports whether the status of a Resource was written since its deletion began, which
// raises the generation: an earlier status is about its create steps.
func knowsDeletion(r *crdv1.Resource) bool {
	return r.DeletionTimestamp != nil && r.Status.ObservedGeneration >= r.Generation
}

// waitsForPerson reports whether the delete steps of a Resource wait for a change by a user: the
// reason is then that of a step, and not one of the kind's own while steps run.
func waitsForPerson(ready *crdv1.StatusCondition) bool {
	own := []string{reasonDeleting, reasonEnding, crdv1.ReasonPending}
	return ready.Status == string(metav1.ConditionFalse) && !slices.Contains(own, ready.Reason)
}

// Reasons of a Resource while its delete steps run.
const (
	reasonDeleting = "Deleting"
	reasonEnding   = "Ending"
)
