package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/workflows/spec"
)

// groupRow is a route group.
type groupRow struct {
	Name, Cluster, Description, By, Key string
	State                               page.State
	Why, Advice                         string
	Created, Updated, Ends              time.Time
	Endpoints                           []endpoint
	Sandboxes                           []matched
	Rules                               []string
}

// matched is a sandbox of a route group.
type matched struct {
	Name, URL string
	State     page.State
}

// URL is that of its page.
func (g groupRow) URL() string { return "/routegroups/" + url.PathEscape(g.Name) }

// group returns a route group with its sandboxes.
func (r *request) group(g model.RouteGroup) groupRow {
	var of spec.GroupSpec
	_ = json.Unmarshal(g.Spec, &of) // one that cannot be read has no description
	st := encode.RouteGroupStatus(g)
	row := groupRow{
		Name: g.Name, Cluster: cmp.Or(g.Cluster, "all clusters"), Description: of.Description, By: cmp.Or(g.Author.Name, g.Author.ID), Key: g.RoutingKey, Advice: remedies[st.Reason],
		Created: g.CreatedAt, Updated: g.UpdatedAt, Ends: g.Ends(), Endpoints: r.endpointsOf(endpoints.OfGroup(g)),
	}
	row.State, row.Why = stateOf(st, !g.DeletedAt.IsZero())
	for _, m := range g.Members(r.rows.candidates) {
		row.Sandboxes = append(row.Sandboxes, matched{m.Name, sandboxRow{Name: m.Name}.URL(), r.stateOfSandbox(m.Name)})
	}
	if of.Match != nil {
		row.Rules = rules(*of.Match)
	}
	return row
}

// rules returns the rules of a route group, a line for each label.
func rules(m spec.Match) (out []string) {
	if m.Label != nil {
		out = append(out, m.Label.Key+"="+m.Label.Value)
	}
	for _, one := range slices.Concat(m.Any, m.All) {
		out = append(out, rules(one)...)
	}
	return out
}

func (r *request) listGroups() error {
	all, pages := paged(r.URL, r.rows.groups)
	var rows []groupRow
	for _, g := range all {
		rows = append(rows, r.group(g))
	}
	return r.show(http.StatusOK, "/routegroups", "Route groups", "groups", map[string]any{"Rows": rows, "Pages": pages})
}

func (r *request) showGroup() error {
	i := slices.IndexFunc(r.rows.groups, func(g model.RouteGroup) bool { return g.Name == r.PathValue("name") })
	if i < 0 {
		return r.none("/routegroups", fmt.Sprintf("There is no route group %s in organisation %s, or it was deleted.", r.PathValue("name"), r.by.Org))
	}
	return r.show(http.StatusOK, "/routegroups", r.PathValue("name"), "group", r.group(r.rows.groups[i]))
}
