package decode

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"switchyard.dev/workflows/specfile"
)

// Segments returns the unescaped segments of an escaped path. The last one is empty if the path ends
// with a slash.
func Segments(path string) ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		text, err := url.PathUnescape(part)
		if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return nil, specfile.Problems{{Text: "the path has a segment that is not UTF-8 text"}}
		}
		parts[i] = text
	}
	return parts, nil
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
