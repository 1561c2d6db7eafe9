package har

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/published"
)

// unknown is the size of what HAR wants to know the size of and is not recorded.
const unknown = -1

// maxDecoded bounds a decoded body, in bytes.
const maxDecoded = 4 << 20

func entryOf(x *trafficv1.Exchange) entry {
	all, wait := x.GetToEnd().AsDuration(), x.GetToHeaders().AsDuration()
	if x.GetResponse() == nil {
		wait = all
	}
	return entry{
		StartedDateTime: x.GetBegan().AsTime(), Time: published.Milliseconds(max(all, wait)),
		Timings: timings{Wait: published.Milliseconds(wait), Receive: published.Milliseconds(max(0, all-wait))},
		Request: requestOf(x), Response: responseOf(x), Comment: about(x),
	}
}

// about returns the properties of an exchange that HAR has no field for.
func about(x *trafficv1.Exchange) string {
	all := []string{fmt.Sprintf("request %s to port %d of pod %s", x.GetId(), x.GetPort(), x.GetPod())}
	if key := x.GetRoutingKey(); key != "" {
		all = append(all, "routing key "+key)
	}
	if x.GetOverridden() {
		all = append(all, "answered by an override")
	}
	return strings.Join(all, "; ")
}

func version(x *trafficv1.Exchange) string {
	switch p := x.GetProtocol(); p {
	case "grpc":
		return "HTTP/2"
	case "websocket":
		return "HTTP/1.1"
	default:
		return p
	}
}

func requestOf(x *trafficv1.Exchange) request {
	m := x.GetRequest()
	at := address(m)
	out := request{
		Method: m.GetMethod(), URL: at.String(), HTTPVersion: version(x), Cookies: []pair{}, Headers: pairs(m), QueryString: query(at.RawQuery),
		HeadersSize: unknown, BodySize: m.GetBodySize(), Comment: removed(m),
	}
	if m.GetBodySize() > 0 {
		body := contentOf(m)
		body.Size, body.Compression, body.RequestEncoding, body.Encoding = nil, 0, body.Encoding, ""
		out.PostData = &body
	}
	return out
}

func responseOf(x *trafficv1.Exchange) response {
	m := x.GetResponse()
	out := response{
		Status: m.GetStatus(), HTTPVersion: version(x), Cookies: []pair{}, Headers: pairs(m), Content: contentOf(m),
		RedirectURL: published.Value(m.GetHeaders(), "location"), HeadersSize: unknown, BodySize: m.GetBodySize(), Comment: removed(m),
	}
	switch why := x.GetProblem(); {
	case m == nil:
		out.Comment = "there is no response: " + cmp.Or(why, "the reason is not known")
	case why != "":
		out.Comment = strings.Trim("the response is not whole: "+why+"; "+out.Comment, "; ")
	}
	return out
}

// address returns the URL of a request. A target that is no URL becomes the path.
func address(m *trafficv1.Message) *url.URL {
	target := m.GetTarget()
	if u, err := url.Parse(target); err == nil && u.IsAbs() && u.Host != "" {
		return u
	}
	path, raw, _ := strings.Cut(target, "?")
	u := &url.URL{Scheme: "http", Host: m.GetAuthority(), Path: "/" + strings.TrimPrefix(escaped(path), "/"), RawQuery: escaped(raw)}
	if plain, err := url.PathUnescape(u.Path); err == nil {
		u.RawPath, u.Path = u.Path, plain
	}
	if _, err := url.Parse(u.String()); err != nil {
		u.Host = "invalid.invalid" // Its headers have it as it was.
	}
	return u
}

// escaped returns a path or a query with what a URL may contain.
func escaped(part string) string {
	var b strings.Builder
	for i := range len(part) {
		if c := part[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}#", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// query returns the parameters of a query in their order.
func query(raw string) []pair {
	out := []pair{}
	for one := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(one, "=")
		if one != "" {
			out = append(out, pair{unescaped(name), unescaped(value)})
		}
	}
	return out
}

func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// pairs returns headers and trailers.
func pairs(m *trafficv1.Message) []pair {
	out := []pair{}
	for _, h := range append(m.GetHeaders()[:len(m.GetHeaders()):len(m.GetHeaders())], m.GetTrailers()...) {
		out = append(out, pair{h.GetName(), h.GetValue()})
	}
	return out
}

// removed names the elided headers and JSON paths of a message, and which of its headers are trailers.
func removed(m *trafficv1.Message) string {
	var all []string
	if names := m.GetElided(); len(names) > 0 {
		all = append(all, "removed before the first copy: "+strings.Join(names, ", "))
	}
	for _, h := range m.GetTrailers() {
		all = append(all, h.GetName()+" is a trailer")
	}
	return strings.Join(all, "; ")
}

func contentOf(m *trafficv1.Message) content {
	body, size, notes := m.GetBody(), m.GetBodySize(), []string{}
	out := content{MimeType: cmp.Or(published.Value(m.GetHeaders(), "content-type"), "application/octet-stream"), Size: &size}
	if coding := published.Value(m.GetHeaders(), "content-encoding"); len(body) > 0 && coding != "" {
		if plain, ok := decoded(coding, body); ok && !published.Cut(m) {
			body, size = plain, uint64(len(plain))
			out.Compression = int64(len(plain)) - int64(m.GetBodySize())
		} else {
			notes = append(notes, "as sent, in "+coding)
		}
	}
	if out.Text = string(body); !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		out.Text, out.Encoding = base64.StdEncoding.EncodeToString(body), "base64"
	}
	if published.Cut(m) {
		notes = append(notes, fmt.Sprintf("the first %d of %d bytes; the SHA-256 of all is %x", len(m.GetBody()), m.GetBodySize(), m.GetBodySha256()))
	}
	out.Comment = strings.Join(notes, "; ")
	return out
}

// decoded returns a body in gzip as it was before, if that is not too large.
func decoded(coding string, body []byte) ([]byte, bool) {
	if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
		return nil, false
	}
	from, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(io.LimitReader(from, maxDecoded+1))
	return plain, err == nil && len(plain) <= maxDecoded
}
