package rest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// How many entries of the audit trail one answer has.
const (
	defaultEvents = 100
	maxEvents     = 1000
)

// listEvents serves the audit trail.
func (h *Handler) listEvents(r *request) (any, error) {
	q, err := eventQuery(r)
	if err != nil {
		return nil, err
	}
	kept, err := h.Stores.Events.Events(r.Context(), r.org(), q)
	if err != nil {
		return nil, err
	}
	events, err := encode.Each(kept, encode.Event)
	return v2.ListEventsResponse{Events: events}, err
}

// eventQuery returns the selection of a request.
func eventQuery(r *request) (q model.EventQuery, err error) {
	given := r.URL.Query()
	q = model.EventQuery{Kind: model.Kind(given.Get("principalKind")), PrincipalID: given.Get("principalId"), Method: model.Method(given.Get("authMethod")), Limit: defaultEvents}
	if text := given.Get("type"); text != "" {
		q.Types = strings.Split(text, ",")
	}
	if given.Get("filters") != "" {
		return q, fail(http.StatusBadRequest, "filters is not supported; use type, principalKind, principalId or authMethod")
	}
	if text := given.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxEvents {
			return q, fail(http.StatusBadRequest, "limit is %q; it must be between 1 and %d", text, maxEvents)
		}
	}
	if q.From, err = timeIn(given, "startTime"); err == nil {
		q.To, err = timeIn(given, "endTime")
	}
	return q, err
}

// timeIn returns a time of a query; zero if it is not given.
func timeIn(query url.Values, name string) (time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fail(http.StatusBadRequest, "%s is %q; write a time as RFC 3339 has it", name, text)
	}
	return t, nil
}
