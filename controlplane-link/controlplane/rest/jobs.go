package rest

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/desired"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

func (h *Handler) work() jobstore.Store { return jobstore.Store{Store: h.Store} }

// runnerGroups returns runner groups as the API has them.
func (h *Handler) runnerGroups(r *request, all ...model.RunnerGroup) ([]v2.JobRunnerGroup, error) {
	phases, err := h.work().Phases(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	return encode.Each(all, func(g model.RunnerGroup) (v2.JobRunnerGroup, error) { return encode.RunnerGroup(g, phases[g.Name]) })
}

func (h *Handler) listRunnerGroups(r *request) (any, error) {
	all, err := h.work().Groups(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	return h.runnerGroups(r, all...)
}

func (h *Handler) getRunnerGroup(r *request) (any, error) {
	g, err := h.work().Group(r.Context(), r.org(), r.vars["runnergroupName"])
	if err != nil {
		return nil, missing("unable to fetch runnergroup: not found")(err)
	}
	return single(h.runnerGroups(r, g))
}

func (h *Handler) applyRunnerGroup(r *request, in specification[desired.RunnerGroupSpec], body tree) (any, error) {
	name := r.vars["runnergroupName"]
	text, err := json.Marshal(body["spec"])
	if err != nil {
		return nil, err
	}
	g := model.RunnerGroup{
		Org: r.org(), Name: name, Cluster: in.Spec.Cluster, Namespace: cmp.Or(in.Spec.Namespace, desired.DefaultNamespace), Spec: text,
		CreatedAt: r.now, UpdatedAt: r.now, Author: r.caller.Author(),
	}
	if _, err := desired.RunnerGroup(g, 0); err != nil {
		return nil, err
	}
	if _, err := h.Store.Cluster(r.Context(), r.org(), g.Cluster); err != nil {
		return nil, as(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("spec.cluster: cluster %q not found", g.Cluster))
	}
	g, err = h.work().PutGroup(r.Context(), g, r.event("runnergroup.apply", specified(name, g.Spec)))
	if err != nil {
		err = as(err, model.ErrDeleting, http.StatusConflict, fmt.Sprintf("runner group %q is being deleted; apply it again when the deletion has ended", name))
		return nil, as(err, model.ErrMoved, http.StatusConflict, fmt.Sprintf("spec.cluster and spec.namespace of runner group %q cannot be changed; delete it first", name))
	}
	return single(h.runnerGroups(r, g))
}

func (h *Handler) deleteRunnerGroup(r *request) (any, error) {
	name := r.vars["runnergroupName"]
	err := h.work().DeleteGroup(r.Context(), r.org(), name, r.now, r.event("runnergroup.delete", tree{"name": name}))
	return nil, missing("unable to delete runnergroup: not found")(err)
}

// jobsAs returns jobs as the API has them.
func (h *Handler) jobsAs(r *request, all ...model.Job) ([]v2.Job, error) {
	groups, err := h.work().Groups(r.Context(), r.org())
	if err != nil {
		return nil, err
	}
	named := map[string]model.RunnerGroup{}
	for _, g := range groups {
		named[g.Name] = g
	}
	return encode.Each(all, func(j model.Job) (v2.Job, error) { return encode.Job(j, named[j.Group]) })
}

func (h *Handler) listJobs(r *request) (any, error) {
	all, err := h.work().Jobs(r.Context(), r.org(), r.URL.Query().Get("targetSandbox"))
	if err != nil {
		return nil, err
	}
	return h.jobsAs(r, all...)
}

var jobMissing = missing("unable to fetch job: not found")

// jobIn returns the job in the path.
func (h *Handler) jobIn(r *request) (model.Job, error) {
	j, err := h.work().Job(r.Context(), r.org(), r.vars["jobName"])
	if attempt := r.vars["jobAttempt"]; err == nil && attempt != "" && attempt != "0" {
		return j, fail(http.StatusNotFound, "attempt %q of job %q not found; the only one is 0", attempt, j.Name)
	}
	return j, jobMissing(err)
}

func (h *Handler) getJob(r *request) (any, error) {
	j, err := h.jobIn(r)
	if err != nil {
		return nil, err
	}
	return single(h.jobsAs(r, j))
}

// mostNames is how many names are proposed for a job.
const mostNames = 5

func (h *Handler) submitJob(r *request, in specification[desired.JobSpec], body tree) (any, error) {
	text, err := json.Marshal(body["spec"])
	if err != nil {
		return nil, err
	}
	j := model.Job{Org: r.org(), Group: in.Spec.RunnerGroup, Spec: text, CreatedAt: r.now, Author: r.caller.Author()}
	if j.Group == "" {
		return nil, specfile.Problems{{Path: "spec.runnerGroup", Text: "is missing; name a runner group"}}
	}
	g, err := h.work().Group(r.Context(), r.org(), j.Group)
	if err == nil && !g.DeletedAt.IsZero() {
		return nil, fail(http.StatusConflict, "spec.runnerGroup: runner group %q is being deleted; name another one", j.Group)
	}
	if err != nil {
		return nil, as(err, model.ErrNotFound, http.StatusBadRequest, fmt.Sprintf("spec.runnerGroup: runner group %q not found", j.Group))
	}
	j.Cluster, j.Namespace = g.Cluster, g.Namespace
	if _, err := desired.Job(j); err != nil {
		return nil, err
	}
	if j.Sandbox, j.RoutingKey, err = h.target(r, in.Spec.RoutingContext, g.Cluster); err != nil {
		return nil, err
	}
	for range mostNames {
		j.Name = jobName(in.Spec.NamePrefix)
		out, err := h.work().Submit(r.Context(), j, r.event("job.submit", specified(j.Name, j.Spec)))
		if errors.Is(err, model.ErrExists) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return single(h.jobsAs(r, out))
	}
	return nil, fail(http.StatusServiceUnavailable, "no name is free for the job; send the request again")
}

// jobName returns a new name: that of an object of Kubernetes.
func jobName(prefix string) string {
	prefix = strings.Trim(strings.ReplaceAll(strings.ToLower(prefix), "_", "-"), "-")
	return cmp.Or(prefix, "job") + "-" + strings.ToLower(rand.Text()[:10])
}

// target returns the sandbox and the routing key of a routing context, which has to be in the cluster of the runner group.
func (h *Handler) target(r *request, c desired.JobRoutingContext, cluster string) (sandbox, key string, err error) {
	var of model.Sandbox
	path, kind, name := "spec.routingContext.sandbox", "sandbox", c.Sandbox
	switch {
	case c.Sandbox != "":
		of, err = h.Store.Sandbox(r.Context(), r.org(), name)
	case c.RouteGroup != "":
		var g model.RouteGroup
		path, kind, name = "spec.routingContext.routegroup", "route group", c.RouteGroup
		g, err = h.Store.RouteGroup(r.Context(), r.org(), name)
		of = model.Sandbox(g)
	default:
		return "", "", nil
	}
	switch {
	case isMissing(err) || err == nil && !of.DeletedAt.IsZero():
		return "", "", fail(http.StatusNotFound, "%s: %s %q not found", path, kind, name)
	case err != nil:
		return "", "", err
	case of.Cluster != "" && of.Cluster != cluster:
		return "", "", fail(http.StatusBadRequest, "%s: %s %q is in cluster %q, and the runner group in %q: name one of the same cluster", path, kind, name, of.Cluster, cluster)
	}
	return c.Sandbox, of.RoutingKey, nil
}

func (h *Handler) cancelJob(r *request) (any, error) {
	name := r.vars["jobName"]
	j, err := h.work().Cancel(r.Context(), r.org(), name, r.now, r.event("job.cancel", tree{"name": name}))
	if err != nil {
		err = as(missing("unable to cancel job: not found")(err), jobstore.ErrEnded, http.StatusConflict, "job is already finished")
		return nil, as(err, model.ErrDeleting, http.StatusConflict, fmt.Sprintf("job %q is being deleted", name))
	}
	return single(h.jobsAs(r, j))
}

func (h *Handler) deleteJob(r *request) (any, error) {
	name := r.vars["jobName"]
	return nil, missing("unable to delete job: not found")(h.work().DeleteJob(r.Context(), r.org(), name, r.now, r.event("job.delete", tree{"name": name})))
}
