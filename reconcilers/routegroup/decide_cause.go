package routegroup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
)

// AnnotationAsked, on the RoutingConfig of a group, is a hash of the group's spec. If it does not change,
// a change of the RoutingConfig comes from a sandbox.
const AnnotationAsked = "signadot.com/asked"

// asked returns the hash of a group's spec without the revision of the control plane.
func asked(g *crdv1.SignadotRouteGroup) string {
	spec := g.Spec
	spec.SDRevision = 0
	text, _ := json.Marshal(spec) // Texts and lists of them: that cannot fail.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// onBehalf returns the object that causes the RoutingConfig of the group to list these members, in the
// form of crdv1.AnnotationOnBehalf: the group if its spec has changed, else the first sandbox with a
// changed list of members.
func onBehalf(in Input, listed []crdv1.SandboxedWorkload) string {
	own := publish.CauseOf(crdv1.KindRouteGroup, in.Group)
	have := in.KeyConfig
	if have == nil || !apply.IsOwned(have, in.Group.UID) || have.Annotations[AnnotationAsked] != asked(in.Group) {
		return publish.OnBehalf(own)
	}
	name, changed := changedSandbox(in, have.Spec.SandboxedWorkloads, listed)
	if !changed { // Keep the recorded cause.
		if said := have.Annotations[crdv1.AnnotationOnBehalf]; said != "" {
			return said
		}
		return publish.OnBehalf(own)
	}
	if s, ok := in.Sandboxes[name]; ok {
		return publish.OnBehalf(publish.CauseOf(crdv1.KindSandbox, s.Object), own)
	}
	return publish.OnBehalf(event.Cause{Kind: crdv1.KindSandbox, Name: name}, own)
}

// changedSandbox returns the name of the first sandbox of the group with a changed list of members. A
// deleted sandbox is only known by its object name, and members are grouped by display name; so if no
// existing sandbox has changed, the first deleted one is returned for all deleted ones.
func changedSandbox(in Input, before, now []crdv1.SandboxedWorkload) (string, bool) {
	was, is := bySandbox(before), bySandbox(now)
	gone := ""
	for _, name := range in.names() {
		shown := name
		if s, ok := in.Sandboxes[name]; ok {
			shown = s.Object.DisplayName()
		} else if gone == "" {
			gone = name
		}
		if !equality.Semantic.DeepEqual(was[shown], is[shown]) {
			return name, true
		}
	}
	return gone, gone != "" && !equality.Semantic.DeepEqual(was, is)
}

// bySandbox groups members by the display name of their sandbox.
func bySandbox(all []crdv1.SandboxedWorkload) map[string][]crdv1.SandboxedWorkload {
	out := map[string][]crdv1.SandboxedWorkload{}
	for _, m := range all {
		out[m.SandboxName] = append(out[m.SandboxName], m)
	}
	return out
}
