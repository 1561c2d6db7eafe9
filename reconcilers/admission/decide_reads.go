package admission

import (
	"cmp"
	"fmt"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/fork/variables"
)

// reads adds the rights to read the objects that the patches of a fork refer to, and counts its pods.
func (d *deciding) reads(w *crdv1.ForkedWorkload, ref crdv1.ObjectRef, ofSandbox bool) {
	if !slices.ContainsFunc(w.Spec.Patches, changes) {
		d.pods++
		return // It is a copy of its baseline.
	}
	live := d.Baselines[ref]
	if live.Live == nil {
		d.readsAnything(ref, ofSandbox, baseline.Describe(ref)+" "+live.Missing)
		return
	}
	plan := planOf(w)
	wishes, problem := fork.WishesOf(live.Live, plan)
	if problem != nil {
		d.readsAnything(ref, ofSandbox, "its patches do not apply to "+live.Live.String()+" as it is: "+problem.Message)
		return
	}
	d.pods += int64(max(wishes.Replicas, 0))
	own := map[power.Read]bool{}
	if ofSandbox {
		own = plan.Outputs()
	}
	for _, r := range wishes.Reads {
		if own[r] || d.anybodyReads() {
			continue
		}
		d.want(Want{
			Access:  Access{Verb: "get", Group: r.Group, Resource: plural(r.Kind), Namespace: cmp.Or(r.Namespace, ref.Namespace), Name: r.Name},
			Purpose: fmt.Sprintf("have a fork of %s read %s %s, which that does not use itself", baseline.Describe(ref), r.Kind, r.Name),
			At:      patchesOf(ofSandbox),
			Instead: "name one that it uses",
		})
	}
}

// readsAnything adds the rights to read all objects, since it is unknown which ones the fork reads.
func (d *deciding) readsAnything(ref crdv1.ObjectRef, ofSandbox bool, why string) {
	d.pods++
	if d.anybodyReads() {
		return
	}
	for _, kind := range []string{power.KindSecret, power.KindConfigMap, power.KindClaim} {
		d.want(Want{
			Access:  Access{Verb: "get", Resource: plural(kind), Namespace: ref.Namespace},
			Purpose: fmt.Sprintf("fork %s with patches that could read objects not known in advance (%.300s)", baseline.Describe(ref), why),
			At:      patchesOf(ofSandbox),
			Instead: "write it once the workload is there and the patches apply to it",
		})
	}
}

// anybodyReads reports whether the operator's configuration lets the patches of any user read Secrets.
func (d *deciding) anybodyReads() bool { return slices.Contains(d.Powers, power.Secrets) }

// patchesOf names the field with the patches.
func patchesOf(ofSandbox bool) string {
	if ofSandbox {
		return "spec.customization.patches"
	}
	return "spec.patches"
}

// changes reports whether a patch changes anything.
func changes(p crdv1.Patch) bool { return p.Strategic != nil || p.Merge != nil || len(p.JSON) > 0 }

// planOf returns the controller's plan of the fork, as far as it affects the objects that it reads.
func planOf(w *crdv1.ForkedWorkload) fork.Plan {
	ref, _ := w.BaselineRef()
	name := cmp.Or(w.Annotations[crdv1.AnnotationSandboxName], w.Name)
	siblings := map[string]variables.Reached{}
	for _, name := range fork.Siblings(w.Spec.Patches) {
		siblings[name] = variables.Reached{Host: "host", Port: 1} // The values do not affect the objects that are read.
	}
	return fork.Plan{
		Siblings: siblings,
		Identity: fork.Identity{
			ForkedWorkload: w.Name, Namespace: w.Namespace, Baseline: ref,
			SandboxName: name, RoutingKey: w.Annotations[crdv1.AnnotationRoutingKey],
		},
		Patches: w.Spec.Patches, Resources: w.Spec.ResourceTemplateData,
	}
}
