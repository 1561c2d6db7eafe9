package web

import (
	"context"
	"errors"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
)

// How long an organisation and a report of a cluster are used if nothing changes, and what bounds their reads: a page
// without the report of a cluster is better than none, and one with the last report is shown before it has a new one.
const (
	readFor, readWithin                    = 5 * time.Second, 10 * time.Second
	reportFor, reportWithin, reportAwaited = 4 * time.Second, 3 * time.Second, 100 * time.Millisecond
)

// snapshot has the rows of an organisation.
type snapshot struct {
	clusters   []model.Cluster
	sessions   map[string]admission.Entry // by cluster
	sandboxes  []model.Sandbox
	byName     map[string]model.Sandbox // sandboxes
	groups     []model.RouteGroup
	candidates []model.Candidate
}

// snapshot returns the rows of an organisation. All pages that are open share one read for each revision.
func (h *Handler) snapshot(ctx context.Context, org string) (*snapshot, error) {
	rows, _, err := h.snapshots.get(ctx, org, func() string { return h.revision(org) }, func(ctx context.Context) (*snapshot, error) {
		now := &snapshot{sessions: map[string]admission.Entry{}, byName: map[string]model.Sandbox{}}
		return now, now.read(ctx, h.Store, org)
	})
	return rows, err
}

// revision returns the revision of an organisation.
func (h *Handler) revision(org string) string {
	revision, _ := h.streams.Revision(org)
	return revision
}

// read reads the rows.
func (s *snapshot) read(ctx context.Context, from *store.Store, org string) (err error) {
	if s.clusters, err = from.Clusters(ctx, org); err != nil {
		return err
	}
	for _, c := range s.clusters {
		if s.sessions[c.Name], err = (store.Registry{Store: from}).Get(ctx, registry.Cluster{Organisation: org, Name: c.Name}); err != nil {
			return err
		}
	}
	if s.sandboxes, err = from.Sandboxes(ctx, org); err != nil {
		return err
	}
	s.candidates = model.Candidates(s.sandboxes)
	for _, o := range s.sandboxes {
		s.byName[o.Name] = o
	}
	s.groups, err = from.RouteGroups(ctx, org)
	return err
}

// reader returns the reader of a cluster with the rights of a person. It is kept for a while: each new one has connections
// of its own, and asks the cluster for its kinds.
func (h *Handler) reader(ctx context.Context, org, cluster string, by model.Author) (client.Reader, error) {
	key := strings.Join([]string{org, cluster, by.ID, by.Name, string(by.Role)}, "/")
	of, _, err := h.readers.get(ctx, key, func() string { return "" }, func(ctx context.Context) (client.Reader, error) { return h.Live.Reader(ctx, org, cluster, by) })
	return of, err
}

// report returns what a cluster reports about a subject, with the rights of the person. Without it, it returns why, in a
// sentence with the remedy, which is empty for an object that the cluster does not have.
func report[T any](r *request, cluster, subject string, read func(ctx context.Context, org, cluster string, by model.Author) (T, error)) (T, string) {
	key := strings.Join([]string{r.by.Org, r.by.ID, string(r.by.Role), cluster, subject}, "/")
	got, stale, err := r.reports.get(r.Context(), key, func() string { return r.revision(r.by.Org) }, func(ctx context.Context) (any, error) {
		return read(ctx, r.by.Org, cluster, r.by.Caller().Author())
	})
	if stale {
		r.stale.Store(true)
	}
	of, _ := got.(T)
	return of, r.unread(cluster, err)
}

// unread returns why a cluster cannot be read. Other errors are in the log only.
func (r *request) unread(cluster string, err error) string {
	switch {
	case err == nil, missing(err), errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, model.ErrUnreachable):
		return "Cluster " + cluster + " is not connected, so this is its last known state. Check Deployment agent of the cluster."
	case errors.Is(err, model.ErrRefused):
		return "You lack rights in cluster " + cluster + " to see more. Ask an administrator of the cluster to let the group switchyard:controlplane:" + r.by.Org + " read the kinds of signadot.com."
	case errors.Is(err, context.DeadlineExceeded):
		return "Cluster " + cluster + " has not answered in time, so this is its last known state."
	}
	r.Logger.WarnContext(r.Context(), "A cluster cannot be read for a page.", "organisation", r.by.Org, "cluster", cluster, "error", err)
	return "Cluster " + cluster + " cannot be read now, so this is its last known state. The log of the control plane has the error."
}
