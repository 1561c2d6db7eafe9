package rest

import (
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// listEvents serves the audit trail.
func (h *Handler) listEvents(r *request) (any, error) {
	q, err := decode.Events(r.URL.Query())
	if err != nil {
		return nil, err
	}
	kept, err := h.Store.Events(r.Context(), r.org(), q)
	if err != nil {
		return nil, err
	}
	events, err := encode.Each(kept, encode.Event)
	return v2.ListEventsResponse{Events: events}, err
}
