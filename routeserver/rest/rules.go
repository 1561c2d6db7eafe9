package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/table"
)

// The models of the published OpenAPI document. Every field is always written.
type (
	rule struct {
		RoutingKey         string    `json:"routingKey"`
		Baseline           baseline  `json:"baseline"`
		DestinationSandbox sandbox   `json:"destinationSandbox"`
		Mappings           []mapping `json:"mappings"`
	}
	baseline struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	sandbox struct {
		Name string `json:"name"`
	}
	mapping struct {
		WorkloadPort uint32     `json:"workloadPort"`
		Destinations []location `json:"destinations"`
	}
	location struct {
		Host string `json:"host"`
		Port uint32 `json:"port"`
	}
)

// rules answers with the rules that match the query, under each of the names.
func (s *Server) rules(names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		filter, err := filterOf(r.URL)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		t, _ := s.cfg.Tables.Current()
		if !t.Whole() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, notWhole, http.StatusServiceUnavailable)
			return
		}
		etag := `"` + t.Hash().String() + `"`
		w.Header().Set("ETag", etag)
		w.Header().Set("Switchyard-Table", fmt.Sprintf("%s/%d", t.Pos().Epoch, t.Pos().Seq))
		w.Header().Set("Cache-Control", "no-cache")
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		list := modelsOf(filter.Rules(t))
		body := make(map[string][]rule, len(names))
		for _, name := range names {
			body[name] = list
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			s.cfg.Logger.Debug("a client went away while its answer was written", "client", r.RemoteAddr, "error", err)
		}
	}
}

const notWhole = "the routing table is not whole yet: try again"

// parameters returns the fields of a filter by their names in a query.
func parameters(f *published.Filter) map[string]*string {
	return map[string]*string{
		"baselineKind":           &f.Kind,
		"baselineNamespace":      &f.Namespace,
		"baselineName":           &f.Name,
		"routingKey":             &f.RoutingKey,
		"destinationSandboxName": &f.Sandbox,
	}
}

// filterOf reads the query. It refuses a parameter that cannot be read, one that is
// given twice, and one whose name is a misspelling of a known one: to leave any of
// these out would give rules that the caller did not ask for, and callers act on what
// they get. It passes over every other name, which a later edition of the API may have.
func filterOf(u *url.URL) (published.Filter, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return published.Filter{}, fmt.Errorf("the query cannot be read: %w", err)
	}
	var f published.Filter
	known := parameters(&f)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		field, ok := known[name]
		if !ok {
			if meant := misspelt(name, maps.Keys(known)); meant != "" {
				return published.Filter{}, fmt.Errorf("there is no query parameter %q: did you mean %s?", name, meant)
			}
			continue
		}
		values := query[name]
		if len(values) > 1 {
			return published.Filter{}, fmt.Errorf("query parameter %s is given %d times: give it once", name, len(values))
		}
		*field = values[0]
	}
	return f, nil
}

func modelsOf(rules []*table.Rule) []rule {
	out := make([]rule, 0, len(rules))
	for _, r := range rules {
		out = append(out, modelOf(r))
	}
	return out
}

func modelOf(r *table.Rule) rule {
	out := rule{
		RoutingKey:         r.RoutingKey,
		Baseline:           baseline(r.Baseline),
		DestinationSandbox: sandbox{r.Sandbox},
		Mappings:           make([]mapping, 0, len(r.Mappings)),
	}
	for _, m := range r.Mappings {
		to := make([]location, 0, len(m.Destinations))
		for _, d := range m.Destinations {
			to = append(to, location{d.Host, d.Port})
		}
		out.Mappings = append(out.Mappings, mapping{m.WorkloadPort, to})
	}
	return out
}
