package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/eventbus/lists"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/steps"
)

// pageSize is how many rows a page has.
const pageSize = 50

// row is a sandbox or a route group.
type row struct {
	Name, URL, Cluster, Description, By, Key string
	State                                    page.State
	// Reason and Why are those of its status.
	Reason, Why            string
	Created, Updated, Ends time.Time
	Endpoints              []endpoint
	Labels                 []string
	Deleting               bool
	// Group: it is a route group, which matches sandboxes.
	Group   bool
	Matched []model.Candidate
}

// rows is a table with a page of rows. Group: they are route groups.
type rows struct {
	Title string
	Group bool
	Rows  []row
	Pages page.Pages
}

// endpoint is one with the URL of its preview, or the reason why its cluster has none.
type endpoint struct {
	endpoints.Endpoint
	Preview, Problem string
}

// row returns a sandbox, or the fields of a route group.
func (r *request) row(path string, s model.Sandbox, st model.Status, ends time.Time, all []endpoints.Endpoint) row {
	var of spec.SandboxSpec
	_ = json.Unmarshal(s.Spec, &of) // one that cannot be read has no description
	out := row{
		Name: s.Name, URL: path + url.PathEscape(s.Name), Cluster: cmp.Or(s.Cluster, "all clusters"), Description: of.Description, By: cmp.Or(s.Author.Name, s.Author.ID), Key: s.RoutingKey,
		State: stateOf(st, s.DeletedAt), Reason: st.Reason, Why: st.Message, Created: s.CreatedAt, Updated: s.UpdatedAt, Ends: ends, Deleting: !s.DeletedAt.IsZero(),
	}
	for _, e := range all {
		domain, problem := r.Previews(lists.First(r.rows.clusters, func(c model.Cluster) bool { return c.Name == e.Cluster.Name }))
		out.Endpoints = append(out.Endpoints, endpoint{e, e.URL(domain), problem})
	}
	for _, name := range slices.Sorted(maps.Keys(of.Labels)) {
		out.Labels = append(out.Labels, name+"="+of.Labels[name])
	}
	return out
}

func (r *request) sandboxRow(s model.Sandbox) row {
	return r.row("/sandboxes/", s, encode.SandboxStatus(s), s.Ends(), endpoints.Of(s))
}

// stateOf returns the state of a status.
func stateOf(st model.Status, deleted time.Time) page.State {
	switch {
	case st.Ready:
		return page.State{Kind: "ok", Text: "Ready"}
	case !deleted.IsZero():
		return page.State{Kind: "wait", Text: "Deleting"}
	case starting[st.Reason] || st.Reason == "":
		return page.State{Kind: "wait", Text: "Starting"}
	}
	return page.State{Kind: "bad", Text: "Not ready"}
}

func stateOfSandbox(s model.Sandbox) page.State { return stateOf(encode.SandboxStatus(s), s.DeletedAt) }

// listing is the content of the list of sandboxes. Counts are the states of all, and States those to filter by.
type listing struct {
	Query, Cluster, State      string
	Clusters, States, Problems []string
	Of                         int
	Counts                     []page.State
	rows
}

func (r *request) listSandboxes() error {
	q := r.URL.Query()
	l := listing{Query: strings.TrimSpace(q.Get("q")), Cluster: q.Get("cluster"), State: q.Get("state"), Of: len(r.rows.sandboxes), Problems: r.problems(true), rows: rows{Title: "Sandboxes"}}
	for _, c := range r.rows.clusters {
		l.Clusters = append(l.Clusters, c.Name)
	}
	counts, found := map[page.State]int{}, []model.Sandbox(nil)
	for _, s := range r.rows.sandboxes {
		state := stateOfSandbox(s)
		counts[state]++
		if (l.Cluster == "" || l.Cluster == s.Cluster) && (l.State == "" || l.State == state.Text) && matches(s, l.Query) {
			found = append(found, s)
		}
	}
	for _, state := range []page.State{{Kind: "ok", Text: "Ready"}, {Kind: "wait", Text: "Starting"}, {Kind: "bad", Text: "Not ready"}, {Kind: "wait", Text: "Deleting"}} {
		l.States = append(l.States, state.Text)
		if n := counts[state]; n > 0 {
			l.Counts = append(l.Counts, page.State{Kind: state.Kind, Text: fmt.Sprintf("%d %s", n, strings.ToLower(state.Text))})
		}
	}
	found, l.Pages = paged(r.URL, found)
	l.Rows = lists.Map(found, r.sandboxRow)
	return r.show(http.StatusOK, "/", "Sandboxes", "sandboxes", l)
}

// matches reports whether the name, the author or the specification of a sandbox has a text, in any case.
func matches(s model.Sandbox, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(s.Name+"\n"+s.Author.Name+"\n"+string(s.Spec)), strings.ToLower(text))
}

// paged returns the part of a list that a query asks for, and the links to the others.
func paged[T any](at *url.URL, all []T) ([]T, page.Pages) {
	n, _ := strconv.Atoi(at.Query().Get("page")) // 0 for one that is none
	n = max(1, min(n, (len(all)+pageSize-1)/pageSize))
	link := func(n int) string {
		q := at.Query()
		q.Set("page", strconv.Itoa(n))
		return at.EscapedPath() + "?" + q.Encode()
	}
	first, last := (n-1)*pageSize, min(n*pageSize, len(all))
	p := page.Pages{Text: fmt.Sprintf("%d to %d of %d", first+1, last, len(all))}
	if n > 1 {
		p.Previous = link(n - 1)
	}
	if last < len(all) {
		p.Next = link(n + 1)
	}
	return all[first:last], p
}

// details is the content of the page of a sandbox. Advice is what to do, Notes are what the cluster reports in addition,
// and Unread is why it cannot be read.
type details struct {
	row
	Devbox, Unread        string
	Advice, Notes, Groups []string
	Members               []live.Member
	Resources             []steps.Report
	// Rule is what labels a route group matches, and Sandboxes are those that have them.
	Rule      string
	Sandboxes rows
}

func (r *request) showSandbox() error {
	s, is := r.rows.byName[r.PathValue("name")]
	if !is {
		return r.none("/", "sandbox")
	}
	d := details{row: r.sandboxRow(s), Devbox: s.Devbox(), Resources: planned(s)}
	this := model.Candidates([]model.Sandbox{s})
	for _, g := range r.rows.groups {
		if len(g.Members(this)) > 0 {
			d.Groups = append(d.Groups, g.Name)
		}
	}
	got, unread := report(r, s.Cluster, "sandbox/"+s.Name, func(ctx context.Context, org, cluster string, by model.Author) (live.Details, error) {
		return r.clustersBy.Details(ctx, org, cluster, s.Name, by)
	})
	d.Members, d.Notes, d.Unread = members(s, got.Members), got.Status.Caveats, cmp.Or(unread, r.unread(s.Cluster, got.Unread))
	d.Resources = merged(d.Resources, got.Resources)
	d.Advice = advice(d)
	r.changing(d.Resources)
	return r.show(http.StatusOK, "/", d.Name+": "+strings.ToLower(d.State.Text), "sandbox", d)
}

// members returns the members of a specification, with what the cluster reports about them.
func members(s model.Sandbox, reported []live.Member) (out []live.Member) {
	var of spec.SandboxSpec
	_ = json.Unmarshal(s.Spec, &of) // one that cannot be read has none
	add := func(how, name string, w spec.Workload) {
		m := live.Member{How: how, Baseline: w.Kind + "/" + w.Namespace + "/" + w.Name}
		for _, known := range reported {
			if known.How == how && known.Baseline == m.Baseline {
				m = known
			}
		}
		m.Name = cmp.Or(name, w.Name)
		out = append(out, m)
	}
	for _, f := range of.Forks {
		add("fork", f.Name, f.ForkOf)
	}
	for _, l := range of.Local {
		add("local", l.Name, l.From)
	}
	for _, v := range of.Virtual {
		add("virtual", v.Name, v.Workload)
	}
	return out
}

// planned returns the resources of a sandbox, before the cluster reports on them.
func planned(s model.Sandbox) (out []steps.Report) {
	for _, name := range slices.Sorted(maps.Keys(s.Plugins)) {
		out = append(out, steps.Report{Resource: name, Sandbox: s.Name, Plugin: s.Plugins[name].String()})
	}
	return out
}

// changing has a page fetched more often while it shows resources with steps that run.
func (r *request) changing(all []steps.Report) {
	if slices.ContainsFunc(all, func(one steps.Report) bool { return one.Reason != "" && !one.Ready && !one.Ended() }) {
		r.every = stepsEvery
	}
}

// merged returns resources with what the cluster reports about them.
func merged(all, reported []steps.Report) []steps.Report {
	for i, one := range all {
		for _, known := range reported {
			if known.Sandbox == one.Sandbox && known.Resource == one.Resource {
				all[i] = known
			}
		}
	}
	return all
}

func (r *request) askDelete() error {
	s, is := r.rows.byName[r.PathValue("name")]
	if !is {
		return r.none("/", "sandbox")
	}
	return r.show(http.StatusOK, "/", "Delete "+s.Name, "delete", map[string]any{"Row": r.sandboxRow(s), "Token": r.by.Token(), "CanForce": !s.DeletedAt.IsZero() && len(s.Plugins) > 0})
}

func (r *request) deleteSandbox() error {
	if err := r.form(); err != nil {
		return err
	}
	name, force, now := r.PathValue("name"), r.PostForm.Get("force") == "yes", r.Now().UTC().Truncate(time.Microsecond)
	ev := store.Entry(r.by.Caller(), "sandbox.delete", now, map[string]any{"name": name, "force": force})
	err := r.Store.DeleteSandbox(r.Context(), r.by.Org, name, force, now, ev)
	if missing(err) {
		return r.none("/", "sandbox")
	} else if err != nil {
		return err
	}
	r.streams.Changed(r.by.Org) // the notification of the store can be later than the next request
	http.Redirect(r.w, r.Request, "/sandboxes/"+url.PathEscape(name), http.StatusSeeOther)
	return nil
}

func (r *request) groupRow(g model.RouteGroup) row {
	fields := model.Sandbox{Name: g.Name, Cluster: g.Cluster, RoutingKey: g.RoutingKey, Spec: g.Spec, CreatedAt: g.CreatedAt, UpdatedAt: g.UpdatedAt, DeletedAt: g.DeletedAt, Author: g.Author}
	out := r.row("/routegroups/", fields, encode.RouteGroupStatus(g), g.Ends(), endpoints.OfGroup(g))
	out.Group, out.Matched = true, g.Members(r.rows.candidates)
	return out
}

// rule returns the labels that a route group matches, as a condition.
func rule(m spec.Match) string {
	if m.Label != nil {
		return m.Label.Key + "=" + m.Label.Value
	}
	word, all := " and ", m.All
	if len(m.Any) > 0 {
		word, all = " or ", m.Any
	}
	return "(" + strings.Join(lists.Map(all, rule), word) + ")"
}

func (r *request) listGroups() error {
	all, pages := paged(r.URL, r.rows.groups)
	return r.show(http.StatusOK, "/routegroups", "Route groups", "groups", rows{"Route groups", true, lists.Map(all, r.groupRow), pages})
}

func (r *request) showGroup() error {
	g := lists.First(r.rows.groups, func(g model.RouteGroup) bool { return g.Name == r.PathValue("name") })
	if g.Name == "" {
		return r.none("/routegroups", "route group")
	}
	d := details{row: r.groupRow(g), Sandboxes: rows{Title: "Sandboxes of the route group"}}
	var some []model.Candidate
	some, d.Sandboxes.Pages = paged(r.URL, d.Matched)
	for _, m := range some {
		d.Sandboxes.Rows = append(d.Sandboxes.Rows, r.sandboxRow(r.rows.byName[m.Name]))
	}
	var of spec.GroupSpec
	if json.Unmarshal(g.Spec, &of) == nil && of.Match != nil {
		d.Rule = rule(*of.Match)
	}
	d.Advice = advice(d)
	return r.show(http.StatusOK, "/routegroups", d.Name+": "+strings.ToLower(d.State.Text), "sandbox", d)
}
