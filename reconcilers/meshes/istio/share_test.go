package istio_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/reconcilers/meshes/istio"
)

// by returns sandboxes of an author.
func by(author string, from, sandboxes int) []istio.Sandbox {
	all := crowd(from, sandboxes)[0].Sandboxes
	for i := range all {
		all[i].Author = author
	}
	return all
}

// TestNoAuthorFillsAVirtualService creates sandboxes of one author until no more get routes. Sandboxes of
// others then still get routes, and those of the first author keep their routes.
func TestNoAuthorFillsAVirtualService(t *testing.T) {
	settings := istio.Settings{ClusterDomain: "cluster.local", Headers: []string{"x-team"}}
	service := crowd(0, 0)[0]
	object := crowded()
	render := func(sandboxes ...[]istio.Sandbox) func(key int) []istio.Finding {
		service.Sandboxes = slices.Concat(sandboxes...)
		m := istio.New(settings, []istio.Service{service}, nil)
		r := m.Render(object)
		object = r.Object
		if again := m.Render(object); again.Changed {
			t.Fatal("rendered again it differs")
		}
		return func(key int) []istio.Finding {
			return m.Report(customer, fmt.Sprintf("k7q2m9x4v%04d", key), []istio.Rendering{r}).Findings
		}
	}
	hoard, bob := by("user mallory", 5000, 3500), by("user bob", 9000, 100)
	lost := func(of []istio.Finding, reason string) bool {
		return slices.ContainsFunc(of, func(f istio.Finding) bool { return f.Lost && f.Reason == reason })
	}
	findings := render(hoard)
	routes := len(httpOf(object)) - 1
	if routes < 1000 || routes > 2000 {
		t.Fatalf("one author has %d routes", routes)
	}
	last := findings(8499)
	if !lost(last, istio.ReasonShareFull) {
		t.Fatalf("the last one of the author has %+v", last)
	}
	for _, part := range []string{"VirtualService app/customer", "of user mallory, which is their share", "Delete sandboxes or route groups of user mallory, or split"} {
		if !strings.Contains(last[0].Message, part) {
			t.Errorf("%q does not contain %q", last[0].Message, part)
		}
	}
	findings = render(hoard, bob)
	if lost(findings(9099), istio.ReasonShareFull) || lost(findings(9099), istio.ReasonFull) {
		t.Errorf("another author has %+v", findings(9099))
	}
	if now := len(httpOf(object)) - 1; now != routes+100 {
		t.Errorf("there are %d routes after %d and 100 more", now, routes)
	}
	if lost(findings(5000), istio.ReasonShareFull) {
		t.Error("a route that was there was driven out")
	}
	findings = render(bob) // The sandboxes of the other author are deleted.
	if lost(findings(9000), istio.ReasonShareFull) || len(httpOf(object)) != 101 {
		t.Errorf("there are %d routes", len(httpOf(object)))
	}
}
