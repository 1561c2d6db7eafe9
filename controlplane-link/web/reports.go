package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/model"
)

const (
	// reportFor is how long a report of a cluster is used, and reportWithin bounds the read of one: a page without it is
	// better than none.
	reportFor, reportWithin = time.Second, 3 * time.Second
	// maxReports bounds those that are remembered.
	maxReports = 1000
)

// reports are what clusters report to persons. Pages that are open at the same time share a read.
type reports struct {
	reads singleflight.Group

	mu    sync.Mutex
	known map[string]report
}

type report struct {
	of any
	at time.Time
}

// of returns a report, which it reads if it is not known. The key names the person, whose rights count.
func (r *reports) of(ctx context.Context, key string, read func(context.Context) (any, error)) (any, error) {
	r.mu.Lock()
	last, is := r.known[key]
	r.mu.Unlock()
	if is && time.Since(last.at) < reportFor {
		return last.of, nil
	}
	done := r.reads.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportWithin)
		defer cancel()
		got, err := read(ctx)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.known) >= maxReports {
			clear(r.known)
		}
		r.known[key] = report{got, time.Now()}
		return got, nil
	})
	select {
	case got := <-done:
		return got.Val, got.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// authorOf returns a person as the author of a request to a cluster.
func authorOf(v login.Visitor) model.Author {
	return model.Author{Principal: model.Principal{Kind: model.KindUser, ID: v.ID, Name: v.Email}, Role: v.Role}
}

// unread returns why a cluster cannot be read, in a sentence with the remedy. Other errors are in the log only.
func (h *Handler) unread(ctx context.Context, v login.Visitor, cluster string, err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, model.ErrUnreachable):
		return "Cluster " + cluster + " is not connected, so this is its last known state. Check Deployment agent of the cluster."
	case errors.Is(err, model.ErrRefused):
		return "You lack rights in cluster " + cluster + " to see more. Ask an administrator of the cluster to let the group switchyard:controlplane:" + v.Org +
			" read the kinds of signadot.com."
	case errors.Is(err, context.DeadlineExceeded):
		return "Cluster " + cluster + " has not answered in time, so this is its last known state."
	}
	h.Logger.WarnContext(ctx, "A cluster cannot be read for a page.", "organisation", v.Org, "cluster", cluster, "error", err)
	return "Cluster " + cluster + " cannot be read now, so this is its last known state. The log of the control plane has the error."
}

// missing reports whether an error is that of an object that does not exist.
func missing(err error) bool { return errors.Is(err, model.ErrNotFound) }
