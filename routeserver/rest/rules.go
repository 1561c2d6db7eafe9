package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/door"
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

// asked is what a request asks of a table: under which names, and which rules.
type asked struct {
	both   bool
	filter published.Filter
}

// rules answers with the rules that match the query, under each of the names.
func (s *Server) rules(names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		filter, err := filterOf(r.URL)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if filter, err = door.Narrow(r.Context(), filter); err != nil {
			door.TurnAway(w, err)
			return
		}
		t, _ := s.cfg.Tables.Current()
		if !t.Whole() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, notWhole, http.StatusServiceUnavailable)
			return
		}
		leave, err := s.requests.Enter(callers.From(r.Context()))
		if err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusTooManyRequests)
			return
		}
		defer leave()
		etag := etagOf(r.Context(), t)
		w.Header().Set("ETag", etag)
		w.Header().Set("Switchyard-Table", fmt.Sprintf("%s/%d", t.Pos().Epoch, t.Pos().Seq))
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("Vary", "Accept-Encoding")
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		s.send(w, r, t, asked{len(names) > 1, filter}, func() ([]byte, error) { return encode(filter.Rules(t), names) })
	}
}

// etagOf returns the hash of all rules, and of the namespace if the caller is restricted to one: a
// caller that presents a token later must get the unrestricted response.
func etagOf(ctx context.Context, t table.Table) string {
	if namespace, narrowed := door.Scope(ctx); narrowed {
		return `"` + t.Hash().String() + "-" + namespace + `"`
	}
	return `"` + t.Hash().String() + `"`
}

// send sends an answer, which many may be sent at the same time.
func (s *Server) send(w http.ResponseWriter, r *http.Request, t table.Table, question asked, encode func() ([]byte, error)) {
	deadlines := http.NewResponseController(w)
	answer, err := s.answers.Read(t, question, func() { _ = deadlines.SetWriteDeadline(time.Now()) }, encode)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer answer.Done()
	body := answer.Plain()
	if acceptsGzip(r.Header) {
		if zipped, ok := answer.Gzip(); ok {
			body = zipped
			w.Header().Set("Content-Encoding", "gzip")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil {
		s.cfg.Logger.Debug("a client went away while its answer was written, or took too long", "client", r.RemoteAddr, "error", err)
	}
}

// encode writes rules, under each of the names.
func encode(rules []*table.Rule, names []string) ([]byte, error) {
	list := modelsOf(rules)
	body := make(map[string][]rule, len(names))
	for _, name := range names {
		body[name] = list
	}
	text, err := json.Marshal(body)
	return append(text, '\n'), err
}

// acceptsGzip reports whether a client takes an answer in that form.
func acceptsGzip(h http.Header) bool {
	for _, one := range strings.Split(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(one, " ", "")), ";")
		if name == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(weight, "q="), 64)
			return weight == "" || err == nil && q > 0
		}
	}
	return false
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

// filterOf parses the query. It rejects unreadable and repeated parameters, and misspellings of
// known ones: ignoring them would return rules that the caller did not ask for, and callers act on
// the response. Other names, which a later version of the API may define, are ignored.
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
