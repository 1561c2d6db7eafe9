// Package elide removes parts of captured messages before they are kept: headers by name, and values in JSON bodies by
// path. It is pure.
//
//	Headers  hop-by-hop headers, Authorization, Authentication, Cookie and Set-Cookie, always; and others by name
//	Body     values in JSON by path, which become null
//
// # Paths
//
// A path is in this subset of RFC 9535 (JSONPath):
//
//	$.name  $['name']  $["name"]   a member
//	$.*  $[*]                      each member or element
//	$[0]                           an element, counted from the beginning
//	$..name  $..*  $..[0]          the same at any depth
//
// Filters, slices, unions, negative indexes and the path $ alone are refused by New, with an error that names the path.
//
// # Bodies
//
// Paths apply to bodies that consist of JSON values (one or several, as in NDJSON), whatever their type claims. With paths,
// these bodies are removed as a whole, since a named value could be in them:
//
//   - bodies with a content encoding, which are not decoded here;
//   - bodies that are declared as JSON, or begin as an object or an array, and cannot be parsed: because
//     they are longer than the kept bytes, or not valid, or deeper than 1,000 levels;
//   - event streams and multipart bodies, which can have JSON in them.
//
// Other bodies (text, forms, images, protobuf) have no JSON paths and stay.
package elide

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// always are the names of headers that are never kept.
var always = set(
	// Of one hop, as RFC 9110 section 7.6.1 and its predecessors list them.
	"connection", "keep-alive", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization", "proxy-connection",
	"te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
	"authorization", "authentication", "cookie", "set-cookie",
)

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, n := range names {
		all[strings.ToLower(strings.TrimSpace(n))] = true
	}
	return all
}

// Side is the direction of a message.
type Side int

// The sides.
const (
	Request Side = iota
	Response
)

// Rules name the headers and values to remove. They are immutable.
type Rules struct {
	headers [2]map[string]bool
	paths   []path
}

// New returns the rules of a capture. The error names a path that is not supported.
func New(c *trafficv1.Capture) (*Rules, error) {
	r := &Rules{headers: [2]map[string]bool{set(c.GetRequestHeadersElided()...), set(c.GetResponseHeadersElided()...)}}
	if n := len(c.GetJsonPathsElided()); n > maxPaths {
		return nil, fmt.Errorf("%d JSON paths are to be removed from bodies: at most %d are supported", n, maxPaths)
	}
	for _, text := range c.GetJsonPathsElided() {
		p, err := parse(text)
		if err != nil {
			return nil, err
		}
		r.paths = append(r.paths, p)
	}
	return r, nil
}

// Headers returns the headers (or trailers) of a message that are kept, sorted by name, and the names of the others in lower case.
// Bytes that are not UTF-8 are replaced. It changes all, and returns a part of it.
func (r *Rules) Headers(side Side, all []*trafficv1.Header) (kept []*trafficv1.Header, elided []string) {
	hop := map[string]bool{}
	for _, h := range all {
		if strings.EqualFold(h.Name, "connection") {
			maps.Copy(hop, set(strings.Split(h.Value, ",")...))
		}
	}
	slices.SortStableFunc(all, func(a, b *trafficv1.Header) int { return strings.Compare(a.Name, b.Name) })
	kept = all[:0]
	var room [64]byte
	for _, h := range all {
		lower := appendLower(room[:0], h.Name) // The lookups of string(lower) allocate nothing.
		if string(lower) == "sd-return" {      // a secret of sidecars (translate.ReturnHeader), not a header of the caller
			continue
		}
		if always[string(lower)] || hop[string(lower)] || r.headers[side][string(lower)] {
			elided = append(elided, strings.ToValidUTF8(string(lower), "\uFFFD"))
			continue
		}
		h.Name, h.Value = strings.ToValidUTF8(h.Name, "\uFFFD"), strings.ToValidUTF8(h.Value, "\uFFFD")
		kept = append(kept, h)
	}
	return kept, slices.Compact(elided)
}

// appendLower appends a name in lower case.
func appendLower(to []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		if c >= utf8.RuneSelf {
			return append(to[:0], strings.ToLower(name)...)
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

// Body removes values from the body of a message with headers, body and body size. If it changes the body,
// it also removes frames, which are not valid any more, and the hash, from which a short secret could be
// guessed; and it appends the paths to the field elided.
func (r *Rules) Body(m *trafficv1.Message) {
	if len(r.paths) == 0 || len(m.GetBody()) == 0 {
		return
	}
	body, elided := r.elided(m)
	if len(elided) == 0 {
		return
	}
	m.Body, m.Frames, m.BodySha256, m.Elided = body, nil, nil, append(m.Elided, elided...)
}

// elided returns the body without the values, and the paths of these.
func (r *Rules) elided(m *trafficv1.Message) (body []byte, elided []string) {
	kind, encoded := "", false
	for _, h := range m.GetHeaders() {
		switch strings.ToLower(h.GetName()) {
		case "content-type":
			kind += " " + strings.ToLower(h.GetValue())
		case "content-encoding":
			encoded = encoded || !strings.EqualFold(strings.TrimSpace(h.GetValue()), "identity")
		}
	}
	switch {
	case encoded:
		return nil, []string{"body: it is encoded"}
	case strings.Contains(kind, "event-stream"), strings.Contains(kind, "multipart"):
		return nil, []string{"body: it can have JSON in it"}
	}
	if uint64(len(m.GetBody())) >= m.GetBodySize() {
		if body, found, ok := r.rewrite(m.GetBody()); ok {
			return body, found
		}
	}
	if strings.Contains(kind, "json") || begins(m.GetBody()) {
		return nil, []string{"body: it is no whole JSON"}
	}
	return m.GetBody(), nil
}

// maxBlank is how many bytes are searched for the beginning of JSON; a body that begins with more blank ones counts as JSON.
const maxBlank = 256

// begins reports whether a body begins as an object or array of JSON, in UTF-8 or UTF-16.
func begins(body []byte) bool {
	if slices.ContainsFunc([]string{"\x00{", "\x00[", "\xff\xfe", "\xfe\xff"}, func(p string) bool { return bytes.HasPrefix(body, []byte(p)) }) {
		return true
	}
	first := bytes.TrimLeft(bytes.TrimPrefix(body[:min(len(body), maxBlank)], bom), " \t\r\n\x1e")
	return len(first) == 0 || first[0] == '{' || first[0] == '['
}

// bom is the byte order mark, with which some programs begin JSON.
var bom = []byte("\ufeff")
