package compile

import (
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// GroupInput is the input of Group.
type GroupInput struct {
	// Group is its specification.
	Group spec.Group
	// Sandboxes are the labels of all sandboxes of the cluster, by the names of the objects.
	Sandboxes map[string]map[string]string
	// RoutingKey is the present key of the group; empty: its name becomes the key.
	RoutingKey string
	// MatchesLater: the sandboxes are not known here, and the group need not match one.
	MatchesLater bool
}

// GroupOutput is the compiled route group.
type GroupOutput struct {
	// Group is the object, with the sandboxes that match now.
	Group *crdv1.SignadotRouteGroup
	// Notes are about parts of the specification that have no effect.
	Notes specfile.Problems
}

// Group compiles a route group. The error is specfile.Problems, with paths and without lines.
func Group(in GroupInput) (GroupOutput, error) {
	s := in.Group.Spec
	out := GroupOutput{Group: &crdv1.SignadotRouteGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindRouteGroup},
		ObjectMeta: metav1.ObjectMeta{Name: in.Group.Name, Annotations: map[string]string{}},
		Spec:       crdv1.SignadotRouteGroupSpec{RoutingKey: in.Group.Name},
	}}
	g := out.Group
	var problems specfile.Problems
	checkName(&problems, "name", in.Group.Name, sandboxName)
	if in.RoutingKey != "" {
		g.Spec.RoutingKey = in.RoutingKey
	}
	if s.Description != "" {
		g.Annotations[crdv1.AnnotationDescription] = s.Description
	}
	e := endpoints{problems: &problems}
	for i, one := range s.Endpoints {
		e.add(fmt.Sprintf("spec.endpoints[%d]", i), one.Name, one.Target)
	}
	if len(e.all) > 0 {
		g.Annotations[crdv1.AnnotationEndpoints] = written(e.all)
	}
	if s.TTL != nil {
		if _, err := spec.Lifetime(s.TTL.Duration); err != nil {
			problems.Add("spec.ttl.duration", "%v", err)
		}
		if offsets := []string{spec.FromUnmatched, spec.FromCreated, spec.FromUpdated}; s.TTL.OffsetFrom != "" && !slices.Contains(offsets, s.TTL.OffsetFrom) {
			problems.Add("spec.ttl.offsetFrom", "is %q%s", s.TTL.OffsetFrom, specfile.Suggest(s.TTL.OffsetFrom, offsets))
		}
		out.Notes.Add("spec.ttl", "has no effect; without a control plane a route group lives until it is deleted")
	}
	if s.Match == nil {
		problems.Add("spec", "has no match, so the route group would have no sandboxes: match a label of theirs, such as match: {label: {key: feature, value: checkout}}")
		return out, problems.OrNil()
	}
	checkMatch(&problems, "spec.match", *s.Match)
	for name, labels := range in.Sandboxes {
		if s.Match.Matches(labels) {
			g.Spec.SandboxNames = append(g.Spec.SandboxNames, name)
		}
	}
	slices.Sort(g.Spec.SandboxNames)
	if len(problems) == 0 && len(g.Spec.SandboxNames) == 0 && !in.MatchesLater {
		problems.Add("spec.match", "matches no sandbox of the cluster%s: apply the sandboxes first, and the route group after them", labelled(in.Sandboxes))
	}
	return out, problems.OrNil()
}

// checkMatch adds the problems of a match.
func checkMatch(problems *specfile.Problems, at string, m spec.Match) {
	given := 0
	for _, is := range []bool{m.Label != nil, m.Any != nil, m.All != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		problems.Add(at, "must have exactly one of label, any and all")
	case m.Label != nil && m.Label.Key == "":
		problems.Add(at+".label.key", "is missing")
	case m.Label != nil && m.Label.Value == "":
		problems.Add(at+".label.value", "is missing; * matches every value")
	case m.Label != nil:
		if _, err := path.Match(m.Label.Value, ""); err != nil {
			problems.Add(at+".label.value", "is %q, which is not a pattern: %v", m.Label.Value, err)
		}
	case len(m.Any)+len(m.All) == 0:
		problems.Add(at, "has an empty list; give at least one match")
	}
	for i, one := range m.Any {
		checkMatch(problems, fmt.Sprintf("%s.any[%d]", at, i), one)
	}
	for i, one := range m.All {
		checkMatch(problems, fmt.Sprintf("%s.all[%d]", at, i), one)
	}
}

// mostLabels is how many labels a message lists.
const mostLabels = 10

// labelled lists the labels of sandboxes, for a message.
func labelled(sandboxes map[string]map[string]string) string {
	var all []string
	for _, labels := range sandboxes {
		for key, value := range labels {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	switch all = slices.Compact(all); {
	case len(sandboxes) == 0:
		return ", which has none"
	case len(all) == 0:
		return ", of which none has spec.labels"
	case len(all) > mostLabels:
		return fmt.Sprintf("; their labels are %s and %d more", strings.Join(all[:mostLabels], ", "), len(all)-mostLabels)
	}
	return "; their labels are " + strings.Join(all, ", ")
}
