package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/steps"
)

// clusterRow is a cluster in a list.
type clusterRow struct {
	Name, Version string
	State         page.State
	// Seen is when its agent was connected last; zero: never, or now.
	Seen      time.Time
	Connected bool
	// Ready of Sandboxes are ready.
	Ready, Sandboxes int
	Previews         string
	Problems         []string
}

// clusters returns the clusters with their health.
func (r *request) clusters() (out []clusterRow) {
	ready, all := map[string]int{}, map[string]int{}
	for _, s := range r.rows.sandboxes {
		all[s.Cluster]++
		if state, _ := sandboxState(s); state.Kind == "ok" {
			ready[s.Cluster]++
		}
	}
	for _, c := range r.rows.clusters {
		row := clusterRow{Name: c.Name, Version: c.OperatorVersion, Connected: r.rows.live(c.Name), Ready: ready[c.Name], Sandboxes: all[c.Name], Previews: r.Previews.Of(c)}
		session := r.rows.sessions[c.Name]
		switch {
		case row.Connected:
			row.State = page.State{Kind: "ok", Text: "Connected"}
		case session.Epoch == 0:
			row.State = page.State{Kind: "wait", Text: "Never connected"}
			row.Problems = append(row.Problems, "Its agent has not connected yet. Create a cluster token, and set controlPlane.clusterToken of the operator's chart.")
		default:
			row.State, row.Seen = page.State{Kind: "bad", Text: "Not connected"}, session.Until
			row.Problems = append(row.Problems, "Its agent is not connected; changes wait until it is. Check Deployment agent of the cluster, and its way to the control plane.")
		}
		if n := all[c.Name] - ready[c.Name]; n > 0 {
			row.Problems = append(row.Problems, fmt.Sprintf("%d of its %d sandboxes are not ready.", n, all[c.Name]))
		}
		if row.Previews == "" && endpoints.SettingsOf(c).Disabled && r.Handler.Previews[r.by.Org] != "" {
			row.Problems = append(row.Problems, "It has no previews: value previewServer.enabled of its operator is false.")
		}
		out = append(out, row)
	}
	return out
}

func (r *request) listClusters() error {
	var problems []string
	if r.Handler.Problems != nil {
		problems = r.Handler.Problems(r.by.Org)
	}
	return r.show(http.StatusOK, "/clusters", "Clusters", "clusters", map[string]any{"Rows": r.clusters(), "Problems": problems, "Admin": r.admin()})
}

// clusterResources are the resources of a cluster.
type clusterResources struct {
	Cluster, Unread string
	Rows            []steps.Report
}

// listResources shows the resources of all sandboxes. Clusters are read at the same time.
func (r *request) listResources() error {
	var all []*clusterResources
	var reading errgroup.Group
	for _, c := range r.rows.clusters {
		of := &clusterResources{Cluster: c.Name}
		for _, s := range r.rows.sandboxes {
			if s.Cluster == c.Name {
				_, planned := planned(spec.SandboxSpec{}, s)
				of.Rows = append(of.Rows, planned...)
			}
		}
		if len(of.Rows) == 0 {
			continue
		}
		all = append(all, of)
		reading.Go(func() error {
			got, err := r.reports.of(r.Context(), "resources/"+r.by.Org+"/"+r.by.ID+"/"+string(r.by.Role)+"/"+c.Name+"/"+r.rows.revision, func(ctx context.Context) (any, error) {
				return r.Live.Resources(ctx, r.by.Org, c.Name, authorOf(r.by))
			})
			of.Unread = r.unread(r.Context(), r.by, c.Name, err)
			reported, _ := got.([]steps.Report)
			of.Rows = merged(of.Rows, reported)
			return nil
		})
	}
	_ = reading.Wait() // each has its own error
	return r.show(http.StatusOK, "/resources", "Resources", "resources", all)
}

// merged returns the resources of rows, with what the cluster reports about those.
func merged(rows, reported []steps.Report) []steps.Report {
	type key struct{ sandbox, resource string }
	known := map[key]steps.Report{}
	for _, one := range reported {
		known[key{one.Sandbox, one.Resource}] = one
	}
	for i, row := range rows {
		if one, is := known[key{row.Sandbox, row.Resource}]; is {
			rows[i] = one
		}
	}
	return rows
}

// stateOfSandbox returns the state of a sandbox.
func (r *request) stateOfSandbox(name string) page.State {
	for _, s := range r.rows.sandboxes {
		if s.Name == name {
			state, _ := sandboxState(s)
			return state
		}
	}
	return page.State{Text: "Unknown"}
}
