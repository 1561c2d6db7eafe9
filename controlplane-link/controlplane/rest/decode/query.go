package decode

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/workflows/specfile"
)

// maxSegment is the maximum length of a segment, in bytes. No name is longer.
const maxSegment = 256

// Segments returns the unescaped segments of an escaped path. The last one is empty if the path ends
// with a slash.
func Segments(path string) ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil || !storable(text) {
			return nil, specfile.Problems{{Text: "the path has a segment that is not UTF-8 text"}}
		}
		if len(text) > maxSegment {
			return nil, specfile.Problems{{Text: fmt.Sprintf("the path has a segment of %d bytes; it can have %d", len(text), maxSegment)}}
		}
		parts[i] = text
	}
	return parts, nil
}

// storable reports whether a store can keep a text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// Query returns a problem of a query with a value that is no text.
func Query(query url.Values) error {
	for name, values := range query {
		for _, value := range values {
			if !storable(value) {
				return specfile.Problems{{Path: strconv.QuoteToASCII(name), Text: "in the query is not UTF-8 text"}}
			}
		}
	}
	return nil
}

// Match matches segments with a path, and returns the variables. A variable matches no empty segment.
func Match(path string, parts []string) (map[string]string, bool) {
	want := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(want) != len(parts) {
		return nil, false
	}
	vars := map[string]string{}
	for i, w := range want {
		name, variable := strings.CutPrefix(w, "{")
		switch {
		case variable && parts[i] != "":
			vars[strings.TrimSuffix(name, "}")] = parts[i]
		case variable || w != parts[i]:
			return nil, false
		}
	}
	return vars, true
}

// How many entries of the audit trail one answer has.
const (
	defaultEvents = 100
	maxEvents     = 1000
	maxTypes      = 50
)

// Years of times that a store can keep, as nanoseconds since 1970.
const (
	firstYear = 1970
	lastYear  = 2261
)

// words are the kinds of principals and the methods of authentication that entries can have.
var words = map[string]string{"principalKind": "user serviceAccount cluster system", "authMethod": "apiKey bearer clusterToken internal"}

// Events returns the selection of entries of the audit trail. The error is specfile.Problems.
func Events(given url.Values) (q model.EventQuery, err error) {
	q = model.EventQuery{Kind: model.Kind(given.Get("principalKind")), PrincipalID: given.Get("principalId"), Method: model.Method(given.Get("authMethod"))}
	for name, among := range words {
		if text := given.Get(name); text != "" && !slices.Contains(strings.Fields(among), text) {
			return q, specfile.Problems{{Path: name, Text: fmt.Sprintf("is %q; use one of %s", text, among)}}
		}
	}
	if text := given.Get("type"); text != "" {
		if n := strings.Count(text, ",") + 1; n > maxTypes {
			return q, specfile.Problems{{Path: "type", Text: fmt.Sprintf("has %d types; it can have %d", n, maxTypes)}}
		}
		q.Types = strings.Split(text, ",")
	}
	if given.Get("filters") != "" {
		return q, specfile.Problems{{Path: "filters", Text: "is not supported; use type, principalKind, principalId or authMethod"}}
	}
	if q.Limit, err = Number(given, "limit", defaultEvents, 1, maxEvents); err == nil {
		q.From, err = timeIn(given, "startTime")
	}
	if err == nil {
		q.To, err = timeIn(given, "endTime")
	}
	return q, err
}

// Number returns a number of a query from least to most; usual if it is not given. The error is specfile.Problems.
func Number(query url.Values, name string, usual, least, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, specfile.Problems{{Path: name, Text: fmt.Sprintf("is %q; it must be between %d and %d", text, least, most)}}
	}
	return n, nil
}

// timeIn returns a time of a query; zero if it is not given.
func timeIn(query url.Values, name string) (time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case err == nil && (t.UTC().Year() < firstYear || t.UTC().Year() > lastYear):
		return t, specfile.Problems{{Path: name, Text: fmt.Sprintf("is %q; write a time between the years %d and %d", text, firstYear, lastYear)}}
	case err != nil:
		return t, specfile.Problems{{Path: name, Text: fmt.Sprintf("is %q; write a time as RFC 3339 has it", text)}}
	}
	return t, nil
}
