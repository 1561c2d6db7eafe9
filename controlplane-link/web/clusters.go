package web

import (
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/eventbus/lists"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/workflows/steps"
)

// clusterRow is a cluster. Seen is when its agent was connected last; zero: never, or now.
type clusterRow struct {
	Name, Version, Previews string
	State                   page.State
	Seen                    time.Time
	// Ready of Sandboxes are ready.
	Ready, Sandboxes int
	Problems         []string
}

// clusters returns the clusters with their health.
func (r *request) clusters() (out []clusterRow) {
	ready, all := map[string]int{}, map[string]int{}
	for _, s := range r.rows.sandboxes {
		all[s.Cluster]++
		if stateOfSandbox(s).Kind == "ok" {
			ready[s.Cluster]++
		}
	}
	for _, c := range r.rows.clusters {
		row := clusterRow{Name: c.Name, Version: c.OperatorVersion, Ready: ready[c.Name], Sandboxes: all[c.Name], State: page.State{Kind: "ok", Text: "Connected"}}
		problem := func(text string) { row.Problems = append(row.Problems, text) }
		if session := r.rows.sessions[c.Name]; session.Epoch == 0 {
			row.State = page.State{Kind: "wait", Text: "Never connected"}
			problem("Its agent has not connected yet. Create a cluster token, and set controlPlane.clusterToken of the operator's chart.")
		} else if !session.Live(r.Now()) {
			row.State, row.Seen = page.State{Kind: "bad", Text: "Not connected"}, session.Until
			problem("Its agent is not connected; changes wait until it is. Check Deployment agent of the cluster, and its connection to the control plane.")
		}
		var no string
		if row.Previews, no = r.Previews(c); no != "" {
			problem(no)
		}
		out = append(out, row)
	}
	return out
}

// problems are those of the installation, and of clusters that are not connected, in sentences.
func (r *request) problems(ofClusters bool) (out []string) {
	out = r.Problems(r.by.Org)
	for _, c := range r.clusters() {
		if ofClusters && c.State.Kind == "bad" {
			out = append(out, "Cluster "+c.Name+": "+c.Problems[0])
		}
	}
	return out
}

func (r *request) listClusters() error {
	return r.show(http.StatusOK, "/clusters", "Clusters", "clusters", map[string]any{"Rows": r.clusters(), "Problems": r.problems(false), "Admin": r.admin()})
}

// clusterResources are the resources of a cluster. Why is empty: no reason is shown above them.
type clusterResources struct {
	Cluster, Unread, Why string
	Resources            []steps.Report
}

// listResources shows the resources of sandboxes. Clusters are read at the same time.
func (r *request) listResources() error {
	some, pages := paged(r.URL, lists.Filter(r.rows.sandboxes, func(s model.Sandbox) bool { return len(s.Plugins) > 0 }))
	var all []*clusterResources
	var reading errgroup.Group
	for _, c := range r.rows.clusters {
		of := &clusterResources{Cluster: c.Name}
		for _, s := range some {
			if s.Cluster == c.Name {
				of.Resources = append(of.Resources, planned(s)...)
			}
		}
		if len(of.Resources) == 0 {
			continue
		}
		all = append(all, of)
		reading.Go(func() error {
			var reported []steps.Report
			reported, of.Unread = report(r, c.Name, "resources", r.clustersBy.Resources)
			of.Resources = merged(of.Resources, reported)
			return nil
		})
	}
	_ = reading.Wait() // each has its own error
	for _, of := range all {
		r.changing(of.Resources)
	}
	return r.show(http.StatusOK, "/resources", "Resources", "resources", map[string]any{"Clusters": all, "Pages": pages})
}
