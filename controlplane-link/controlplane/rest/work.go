package rest

import (
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/rest/work"
)

// work returns the operations for runner groups and jobs.
func (h *Handler) work() work.Work {
	return work.Work{Store: jobstore.Store{Store: h.Store}, Streams: h.Streams, Kept: h.Kept, Captures: h.Captures, Comparing: h.comparing, Logger: h.Logger}
}

// forWork serves an operation for runner groups and jobs.
func forWork(serve func(work.Work, *work.Call) (any, error)) func(*Handler, *request) (any, error) {
	return func(h *Handler, r *request) (any, error) { return serve(h.work(), &r.Call) }
}

// workOn is forWork with the body, as with.
func workOn[T any](serve func(work.Work, *work.Call, T, tree) (any, error)) func(*Handler, *request) (any, error) {
	return with(func(h *Handler, r *request, in T, body tree) (any, error) { return serve(h.work(), &r.Call, in, body) })
}
