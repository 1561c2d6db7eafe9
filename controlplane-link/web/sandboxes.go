package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/steps"
)

// pageSize is how many rows a page has.
const pageSize = 50

// endpoint is one with its preview.
type endpoint struct{ Name, Target, Cluster, URL string }

// sandboxRow is a sandbox in a list.
type sandboxRow struct {
	Name, Cluster, Description, By string
	State                          page.State
	// Why is the message of a status that is not ready.
	Why           string
	Updated, Ends time.Time
	Endpoints     []endpoint
}

// URL is that of its page.
func (s sandboxRow) URL() string { return "/sandboxes/" + url.PathEscape(s.Name) }

// stateOf returns the state of a status, and its message unless it is ready.
func stateOf(st model.Status, deleted bool) (page.State, string) {
	switch {
	case st.Ready:
		return page.State{Kind: "ok", Text: "Ready"}, ""
	case deleted:
		return page.State{Kind: "wait", Text: "Deleting"}, st.Message
	case starting[st.Reason] || st.Reason == "":
		return page.State{Kind: "wait", Text: "Starting"}, st.Message
	}
	return page.State{Kind: "bad", Text: "Not ready"}, st.Message
}

// sandboxState returns the state of a sandbox.
func sandboxState(s model.Sandbox) (page.State, string) {
	return stateOf(encode.SandboxStatus(s), !s.DeletedAt.IsZero())
}

// endpointsOf returns endpoints with their previews.
func (r *request) endpointsOf(all []endpoints.Endpoint) (out []endpoint) {
	for _, e := range all {
		c := r.rows.cluster(e.Cluster.Name)
		out = append(out, endpoint{e.Name, e.Target, e.Cluster.Name, e.URL(r.Previews.Of(c))})
	}
	return out
}

// row returns a sandbox for a list.
func (r *request) row(s model.Sandbox) sandboxRow {
	var of spec.SandboxSpec
	_ = json.Unmarshal(s.Spec, &of) // one that cannot be read has no description
	state, why := sandboxState(s)
	return sandboxRow{
		Name: s.Name, Cluster: s.Cluster, Description: of.Description, By: cmp.Or(s.Author.Name, s.Author.ID), State: state, Why: why,
		Updated: s.UpdatedAt, Ends: s.Ends(), Endpoints: r.endpointsOf(endpoints.Of(s)),
	}
}

// listing is the content of the list of sandboxes.
type listing struct {
	Query, Cluster, State string
	Clusters              []string
	Problems              []string
	// Of is how many sandboxes there are, and Found how many match.
	Of, Found int
	Counts    []page.State
	Rows      []sandboxRow
	Pages     page.Pages
}

// states are those that the list can be filtered by.
var states = []string{"Ready", "Starting", "Not ready", "Deleting"}

// States are those that the list can be filtered by.
func (listing) States() []string { return states }

func (r *request) listSandboxes() error {
	q := r.URL.Query()
	l := listing{Query: strings.TrimSpace(q.Get("q")), Cluster: q.Get("cluster"), State: q.Get("state"), Of: len(r.rows.sandboxes), Problems: r.problems()}
	for _, c := range r.rows.clusters {
		l.Clusters = append(l.Clusters, c.Name)
	}
	counts, found := map[string]int{}, []model.Sandbox(nil)
	for _, s := range r.rows.sandboxes {
		state, _ := sandboxState(s)
		counts[state.Text]++
		if (l.Cluster == "" || l.Cluster == s.Cluster) && (l.State == "" || l.State == state.Text) && matches(s, l.Query) {
			found = append(found, s)
		}
	}
	for _, name := range states {
		if n := counts[name]; n > 0 {
			kind := map[string]string{"Ready": "ok", "Not ready": "bad"}[name]
			l.Counts = append(l.Counts, page.State{Kind: cmp.Or(kind, "wait"), Text: fmt.Sprintf("%d %s", n, strings.ToLower(name))})
		}
	}
	l.Found = len(found)
	found, l.Pages = paged(r.URL, found)
	for _, s := range found {
		l.Rows = append(l.Rows, r.row(s))
	}
	return r.show(http.StatusOK, "/", "Sandboxes", "sandboxes", l)
}

// matches reports whether the name, the author or the specification of a sandbox has a text, in any case.
func matches(s model.Sandbox, text string) bool {
	has := func(in string) bool { return strings.Contains(strings.ToLower(in), strings.ToLower(text)) }
	return text == "" || has(s.Name) || has(s.Author.Name) || has(string(s.Spec))
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
		p.Earlier = link(n - 1)
	}
	if last < len(all) {
		p.Later = link(n + 1)
	}
	return all[first:last], p
}

// problems are those of the installation and of clusters, in sentences.
func (r *request) problems() (out []string) {
	if r.Handler.Problems != nil {
		out = r.Handler.Problems(r.by.Org)
	}
	for _, c := range r.clusters() {
		if c.State.Kind == "bad" {
			out = append(out, "Cluster "+c.Name+": "+c.Problems[0])
		}
	}
	return out
}

// details is the content of the page of a sandbox.
type details struct {
	sandboxRow
	Key, Reason, Devbox string
	Created             time.Time
	Labels              []string
	Deleting            bool
	// Advice is what to do, and Notes are what the cluster reports in addition. Unread is why it cannot be read.
	Advice    []string
	Notes     []string
	Unread    string
	Members   []live.Member
	Resources []steps.Report
	Groups    []string
}

func (r *request) showSandbox() error {
	s, is := r.sandbox()
	if !is {
		return r.none("/", fmt.Sprintf("There is no sandbox %s in organisation %s, or it was deleted.", r.PathValue("name"), r.by.Org))
	}
	d := details{sandboxRow: r.row(s), Key: s.RoutingKey, Created: s.CreatedAt, Devbox: s.Devbox(), Deleting: !s.DeletedAt.IsZero(), Reason: encode.SandboxStatus(s).Reason}
	var of spec.SandboxSpec
	_ = json.Unmarshal(s.Spec, &of) // the rest is shown without it
	for _, name := range sorted(of.Labels) {
		d.Labels = append(d.Labels, name+"="+of.Labels[name])
	}
	d.Members, d.Resources = planned(of, s)
	for _, g := range r.rows.groups {
		if slices.ContainsFunc(g.Members(r.rows.candidates), func(c model.Candidate) bool { return c.Name == s.Name }) {
			d.Groups = append(d.Groups, g.Name)
		}
	}
	r.report(s, &d)
	d.Advice = advice(d)
	return r.show(http.StatusOK, "/", d.Name+": "+strings.ToLower(d.State.Text), "sandbox", d)
}

// sandbox returns the sandbox of the path.
func (r *request) sandbox() (model.Sandbox, bool) {
	i := slices.IndexFunc(r.rows.sandboxes, func(s model.Sandbox) bool { return s.Name == r.PathValue("name") })
	if i < 0 {
		return model.Sandbox{}, false
	}
	return r.rows.sandboxes[i], true
}

// planned returns the members and resources of a specification, before the cluster reports on them.
func planned(of spec.SandboxSpec, s model.Sandbox) (members []live.Member, resources []steps.Report) {
	named := func(w spec.Workload) string { return w.Kind + "/" + w.Namespace + "/" + w.Name }
	for _, f := range of.Forks {
		members = append(members, live.Member{How: "fork", Name: cmp.Or(f.Name, f.ForkOf.Name), Baseline: named(f.ForkOf)})
	}
	for _, l := range of.Local {
		members = append(members, live.Member{How: "local", Name: l.Name, Baseline: named(l.From)})
	}
	for _, v := range of.Virtual {
		members = append(members, live.Member{How: "virtual", Name: v.Name, Baseline: named(v.Workload)})
	}
	for _, name := range sorted(s.Plugins) {
		resources = append(resources, steps.Report{Resource: name, Sandbox: s.Name, Plugin: s.Plugins[name].String()})
	}
	return members, resources
}

// report adds what the cluster reports now.
func (r *request) report(s model.Sandbox, d *details) {
	got, err := r.reports.of(r.Context(), "sandbox/"+r.by.Org+"/"+r.by.ID+"/"+string(r.by.Role)+"/"+s.Cluster+"/"+s.Name+"/"+r.rows.revision, func(ctx context.Context) (any, error) {
		return r.Live.Details(ctx, r.by.Org, s.Cluster, s.Name, authorOf(r.by))
	})
	if missing(err) {
		return // the status has the reason
	}
	d.Unread = r.unread(r.Context(), r.by, s.Cluster, err)
	of, is := got.(live.Details)
	if !is {
		return
	}
	d.Notes = of.Status.Caveats
	if of.Unread != nil {
		d.Unread = r.unread(r.Context(), r.by, s.Cluster, of.Unread)
	}
	if len(of.Members) > 0 {
		d.Members = of.Members
	}
	for _, live := range of.Resources {
		if i := slices.IndexFunc(d.Resources, func(known steps.Report) bool { return known.Resource == live.Resource }); i >= 0 {
			d.Resources[i] = live
		} else {
			d.Resources = append(d.Resources, live)
		}
	}
}

// deletion is the content of the page that asks before a deletion.
type deletion struct {
	sandboxRow
	Token               string
	Deleting, Resources bool
}

func (r *request) askDelete() error {
	s, is := r.sandbox()
	if !is {
		return r.showSandbox()
	}
	return r.show(http.StatusOK, "/", "Delete "+s.Name, "delete", deletion{r.row(s), r.by.Token(), !s.DeletedAt.IsZero(), len(s.Plugins) > 0})
}

func (r *request) deleteSandbox() error {
	if err := r.form(); err != nil {
		return err
	}
	name, force := r.PathValue("name"), r.PostForm.Get("force") == "yes"
	err := r.Store.DeleteSandbox(r.Context(), r.by.Org, name, force, r.Now().UTC().Truncate(time.Microsecond), r.event("sandbox.delete", map[string]any{"name": name, "force": force}))
	if missing(err) {
		return r.showSandbox()
	}
	if err != nil {
		return err
	}
	r.streams.Changed(r.by.Org) // the notification of the store can be later than the next request
	http.Redirect(r.w, r.Request, "/sandboxes/"+url.PathEscape(name), http.StatusSeeOther)
	return nil
}
