package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"switchyard.dev/workflows/spec"
)

// Candidate is a sandbox that route groups can match.
type Candidate struct {
	Name, Cluster string
	// Labels are those of its specification.
	Labels map[string]string
}

// Candidates returns the sandboxes that are not deleted, with their labels. A specification that cannot be
// read has none.
func Candidates(all []Sandbox) []Candidate {
	var out []Candidate
	for _, s := range all {
		var labelled struct {
			Labels map[string]string `json:"labels"`
		}
		if s.DeletedAt.IsZero() && json.Unmarshal(s.Spec, &labelled) == nil {
			out = append(out, Candidate{s.Name, s.Cluster, labelled.Labels})
		}
	}
	return out
}

// Members returns the candidates that a route group matches, of all its clusters, by name. One that is
// deleted, or with a specification that cannot be read, has none.
func (g RouteGroup) Members(of []Candidate) []Candidate {
	m := g.spec().Match
	if m == nil || !g.DeletedAt.IsZero() {
		return nil
	}
	var out []Candidate
	for _, c := range of {
		if (g.Cluster == "" || g.Cluster == c.Cluster) && m.Matches(c.Labels) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Clusters returns the clusters that a route group names, by the path of the field.
func (g RouteGroup) Clusters() map[string]string {
	out := map[string]string{}
	if g.Cluster != "" {
		out["spec.cluster"] = g.Cluster
	}
	for i, e := range g.spec().Endpoints {
		if e.Cluster != "" {
			out[fmt.Sprintf("spec.endpoints[%d].cluster", i)] = e.Cluster
		}
	}
	return out
}

// spec returns the specification; an empty one if it cannot be read.
func (g RouteGroup) spec() (s spec.GroupSpec) {
	if json.Unmarshal(g.Spec, &s) != nil {
		return spec.GroupSpec{}
	}
	return s
}
