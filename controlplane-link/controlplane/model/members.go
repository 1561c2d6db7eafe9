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

// Members returns the candidates that a route group matches, of all its clusters, by name.
func (g RouteGroup) Members(of []Candidate) ([]Candidate, error) {
	var s spec.GroupSpec
	if err := json.Unmarshal(g.Spec, &s); err != nil {
		return nil, fmt.Errorf("read the specification of route group %s: %w", g.Name, err)
	}
	var out []Candidate
	for _, c := range of {
		if s.Match != nil && (g.Cluster == "" || g.Cluster == c.Cluster) && s.Match.Matches(c.Labels) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
