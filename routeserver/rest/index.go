package rest

import (
	"fmt"
	"net/http"
)

const index = `Switchyard route server

GET /openapi.json                       our own API, described as OpenAPI 2.0
    /api/switchyard/v1/                 our own API: lookup, explain, table, diff,
                                        dry-run, history, kept, watch, log, wait,
                                        sidecars
GET /api/v1/openapi.json                the published routes API, described as OpenAPI 3.0
GET /api/v1/workloads/routing-rules     the published routes API
GET /healthz, /readyz                   for probes
`

// description is the relation of the OpenAPI document to the API (RFC 8631).
const description = `</openapi.json>; rel="service-desc"`

func serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Link", description)
	fmt.Fprint(w, index)
}

// openAPI serves the description of an API.
func (s *Server) openAPI(document []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-cache")
		if _, err := w.Write(document); err != nil {
			s.cfg.Logger.Debug("a client closed its connection while its answer was written", "client", r.RemoteAddr, "error", err)
		}
	}
}
