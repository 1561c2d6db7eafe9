package work

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/store"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs/published"
	"switchyard.dev/workflows/specfile"
)

// runnerGroups returns runner groups as the API has them.
func (w Work) runnerGroups(r *Call, all ...model.RunnerGroup) ([]v2.JobRunnerGroup, error) {
	phases, err := w.Phases(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	return encode.Each(all, func(g model.RunnerGroup) (v2.JobRunnerGroup, error) { return encode.RunnerGroup(g, phases[g.Name]) })
}

// ListGroups returns all runner groups.
func (w Work) ListGroups(r *Call) (any, error) {
	all, err := w.Groups(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	return w.runnerGroups(r, all...)
}

// GetGroup returns the runner group in the path.
func (w Work) GetGroup(r *Call) (any, error) {
	g, err := w.Group(r.Context(), r.Org(), r.Vars["runnergroupName"])
	if err != nil {
		return nil, failure.Missing("unable to fetch runnergroup: not found")(err)
	}
	return encode.Single(w.runnerGroups(r, g))
}

// ApplyGroup creates or changes the runner group in the path.
func (w Work) ApplyGroup(r *Call, in decode.Specification[v2.JobRunnerGroupSpec], body decode.Tree) (any, error) {
	name := r.Vars["runnergroupName"]
	text, err := json.Marshal(body["spec"])
	if err != nil {
		return nil, err
	}
	g := model.RunnerGroup{
		Org: r.Org(), Name: name, Cluster: ptr.Deref(in.Spec.Cluster, ""), Namespace: cmp.Or(ptr.Deref(in.Spec.Namespace, ""), desired.DefaultNamespace), Spec: text,
		CreatedAt: r.Now, UpdatedAt: r.Now, Author: r.Caller.Author(),
	}
	if _, err := desired.RunnerGroup(g, 0); err != nil {
		return nil, err
	}
	if strings.HasPrefix(g.Name, smarttests.GroupPrefix) {
		return nil, failure.New(http.StatusForbidden, "names that begin with %s are for Smart Tests; use another one", smarttests.GroupPrefix)
	}
	if g.Namespace == crdv1.SmartTestsNamespace {
		return nil, failure.New(http.StatusForbidden, "spec.namespace: namespace %s is for Smart Tests; name another one", g.Namespace)
	}
	if _, err := w.Cluster(r.Context(), r.Org(), g.Cluster); err != nil {
		return nil, failure.As(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("spec.cluster: cluster %q not found", g.Cluster))
	}
	g, err = w.PutGroup(r.Context(), g, r.Event("runnergroup.apply", store.Specified(name, g.Spec)))
	if err != nil {
		err = failure.As(err, model.ErrDeleting, http.StatusConflict, fmt.Sprintf("runner group %q is being deleted; apply it again when the deletion has ended", name))
		return nil, failure.As(err, model.ErrMoved, http.StatusConflict, fmt.Sprintf("spec.cluster and spec.namespace of runner group %q cannot be changed; delete it first", name))
	}
	return encode.Single(w.runnerGroups(r, g))
}

// RemoveGroup begins the deletion of the runner group in the path.
func (w Work) RemoveGroup(r *Call) (any, error) {
	name := r.Vars["runnergroupName"]
	err := w.DeleteGroup(r.Context(), r.Org(), name, r.Now, r.Event("runnergroup.delete", map[string]any{"name": name}))
	return nil, failure.Missing("unable to delete runnergroup: not found")(err)
}

// jobsAs returns jobs as the API has them.
func (w Work) jobsAs(r *Call, all ...model.Job) ([]v2.Job, error) {
	groups, err := w.Groups(r.Context(), r.Org())
	if err != nil {
		return nil, err
	}
	named := map[string]model.RunnerGroup{}
	for _, g := range groups {
		named[g.Name] = g
	}
	return encode.Each(all, func(j model.Job) (v2.Job, error) { return encode.Job(j, named[j.Group]) })
}

// ListJobs returns the jobs, the newest first, or those of query targetSandbox.
func (w Work) ListJobs(r *Call) (any, error) {
	all, err := w.Jobs(r.Context(), r.Org(), r.URL.Query().Get("targetSandbox"))
	if err != nil {
		return nil, err
	}
	return w.jobsAs(r, all...)
}

var jobMissing = failure.Missing("unable to fetch job: not found")

// jobIn returns the job in the path.
func (w Work) jobIn(r *Call) (model.Job, error) {
	j, err := w.Job(r.Context(), r.Org(), r.Vars["jobName"])
	if attempt := r.Vars["jobAttempt"]; err == nil && attempt != "" && attempt != "0" {
		return j, failure.New(http.StatusNotFound, "attempt %q of job %q not found; the only one is 0", attempt, j.Name)
	}
	return j, jobMissing(err)
}

// GetJob returns the job in the path.
func (w Work) GetJob(r *Call) (any, error) {
	j, err := w.jobIn(r)
	if err != nil {
		return nil, err
	}
	return encode.Single(w.jobsAs(r, j))
}

// mostNames is how many names are proposed for a job.
const mostNames = 5

// SubmitJob adds a job, which is queued, with a new name.
func (w Work) SubmitJob(r *Call, in decode.Specification[v2.JobSpec], body decode.Tree) (any, error) {
	text, err := json.Marshal(body["spec"])
	if err != nil {
		return nil, err
	}
	j := model.Job{Org: r.Org(), Group: ptr.Deref(in.Spec.RunnerGroup, ""), Spec: text, CreatedAt: r.Now, Author: r.Caller.Author()}
	if j.Group == "" {
		return nil, specfile.Problems{{Path: "spec.runnerGroup", Text: "is missing; name a runner group"}}
	}
	g, err := w.Group(r.Context(), r.Org(), j.Group)
	if err == nil && !g.DeletedAt.IsZero() {
		return nil, failure.New(http.StatusConflict, "spec.runnerGroup: runner group %q is being deleted; name another one", j.Group)
	}
	if err != nil {
		return nil, failure.As(err, model.ErrNotFound, http.StatusBadRequest, fmt.Sprintf("spec.runnerGroup: runner group %q not found", j.Group))
	}
	if g.Namespace == crdv1.SmartTestsNamespace {
		return nil, failure.New(http.StatusForbidden, "spec.runnerGroup: runner group %q is for Smart Tests: run a test instead", j.Group)
	}
	j.Cluster, j.Namespace = g.Cluster, g.Namespace
	if _, err := desired.Job(j); err != nil {
		return nil, err
	}
	var of model.Sandbox
	if j.Sandbox, of, err = w.target(r, "spec.routingContext", ptr.Deref(in.Spec.RoutingContext, v2.JobRoutingContext{}), g.Cluster); err != nil {
		return nil, err
	}
	j.RoutingKey = of.RoutingKey
	for range mostNames {
		j.Name = published.Prefix(in.Spec) + strings.ToLower(rand.Text()[:10])
		out, err := w.Submit(r.Context(), j, r.Event("job.submit", store.Specified(j.Name, j.Spec)))
		if errors.Is(err, model.ErrExists) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return encode.Single(w.jobsAs(r, out))
	}
	return nil, failure.New(http.StatusServiceUnavailable, "no name is free for the job; send the request again")
}

// target returns the sandbox of a routing context, which is at a field, and the row of the sandbox or route group; the zero value: it
// names none. It has to be in the cluster; empty: in any.
func (w Work) target(r *Call, at string, c v2.JobRoutingContext, cluster string) (sandbox string, of model.Sandbox, err error) {
	sandbox, group := ptr.Deref(c.Sandbox, ""), ptr.Deref(c.Routegroup, "")
	path, kind, name := at+".sandbox", "sandbox", sandbox
	switch {
	case sandbox != "":
		of, err = w.Sandbox(r.Context(), r.Org(), name)
	case group != "":
		var g model.RouteGroup
		path, kind, name = at+".routegroup", "route group", group
		g, err = w.RouteGroup(r.Context(), r.Org(), name)
		of = model.Sandbox(g)
	default:
		return "", of, nil
	}
	switch {
	case errors.Is(err, model.ErrNotFound) || err == nil && !of.DeletedAt.IsZero():
		err = failure.New(http.StatusNotFound, "%s: %s %q not found", path, kind, name)
	case err == nil && cluster != "" && of.Cluster != "" && of.Cluster != cluster:
		err = failure.New(http.StatusBadRequest, "%s: %s %q is in cluster %q, not in %q, in which the script runs: name one of the same cluster", path, kind, name, of.Cluster, cluster)
	}
	return sandbox, of, err
}

// CancelJob cancels the job in the path.
func (w Work) CancelJob(r *Call) (any, error) {
	name := r.Vars["jobName"]
	if err := w.ofTest(r, name); err != nil {
		return nil, err
	}
	j, err := w.Cancel(r.Context(), r.Org(), name, r.Now, r.Event("job.cancel", map[string]any{"name": name}))
	if err != nil {
		err = failure.As(failure.Missing("unable to cancel job: not found")(err), jobstore.ErrEnded, http.StatusConflict, "job is already finished")
		return nil, failure.As(err, model.ErrDeleting, http.StatusConflict, fmt.Sprintf("job %q is being deleted", name))
	}
	return encode.Single(w.jobsAs(r, j))
}

// RemoveJob begins the deletion of the job in the path.
func (w Work) RemoveJob(r *Call) (any, error) {
	name := r.Vars["jobName"]
	if err := w.ofTest(r, name); err != nil {
		return nil, err
	}
	return nil, failure.Missing("unable to delete job: not found")(w.DeleteJob(r.Context(), r.Org(), name, r.Now, r.Event("job.delete", map[string]any{"name": name})))
}
