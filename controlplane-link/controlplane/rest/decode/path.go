package decode

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

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
