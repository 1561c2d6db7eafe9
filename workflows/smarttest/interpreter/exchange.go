package interpreter

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/workflows/smarttest"
)

// elided are headers of one connection, and of credentials: captures never have them.
var elided = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Authorization", "Authentication", "Cookie", "Set-Cookie"}

// trace is the header with the trace of a request.
const trace = "Traceparent"

// exchange is the capture of a call: its first request, and the last response.
type exchange struct {
	trafficv1.Exchange
	began         time.Time
	before, after http.Header
}

// begin adds the trace of the call, which begins with traces, to a request without one, and records the first request.
func (e *exchange) begin(req *http.Request, traces string) *exchange {
	if e != nil { // it was redirected
		req.Header.Set(trace, e.before.Get(trace))
		return e
	}
	if req.Header.Get(trace) == "" {
		var id [24]byte
		_, _ = rand.Read(id[:]) // it does not fail
		req.Header.Set(trace, "00-"+traces+hex.EncodeToString(id[:16])[len(traces):]+"-"+hex.EncodeToString(id[16:])+"-01")
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body) // it is in memory
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	e = &exchange{began: time.Now(), before: req.Header.Clone()}
	if parts := strings.Split(req.Header.Get(trace), "-"); len(parts) > 2 { //nolint:mnd // version-trace-parent-flags
		e.TraceId, e.ParentId = valid(parts[1]), valid(parts[2])
	}
	e.Id, e.Began, e.Request = e.TraceId+"-"+e.ParentId, timestamppb.New(e.began), message(body)
	e.Request.Method, e.Request.Target, e.Request.Authority = req.Method, valid(req.URL.RequestURI()), valid(req.URL.Host)
	return e
}

// answered records a response.
func (e *exchange) answered(res *http.Response, body []byte) {
	e.ToEnd, e.Response, e.after, e.Protocol = durationpb.New(time.Since(e.began)), message(body), res.Header, res.Proto
	e.Response.Status = uint32(res.StatusCode)
}

// message returns a message with the beginning of a body.
func message(body []byte) *trafficv1.Message {
	sum := sha256.Sum256(body)
	return &trafficv1.Message{Body: bytes.Clone(body[:min(len(body), smarttest.MaxCaptured)]), BodySize: uint64(len(body)), BodySha256: sum[:]}
}

// capture adds the exchange to the report of a call, without elided headers.
func (c *call) capture() {
	if c.exchange == nil {
		return
	}
	e := c.exchange
	e.Problem = valid(c.Problem)
	c.headers(e.Request, e.before)
	if e.Response != nil {
		c.headers(e.Response, e.after)
	}
	content, err := protojson.Marshal(&e.Exchange)
	if c.run.captured += len(content); err == nil && c.run.captured <= c.run.Limits.Report/2 {
		c.Exchange = content
	}
}

// headers adds headers to a message, in the order of their names, and the names of elided ones.
func (c *call) headers(m *trafficv1.Message, all http.Header) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.ContainsFunc(slices.Concat(elided, c.run.Elided), func(e string) bool { return strings.EqualFold(e, name) }) {
			m.Elided = append(m.Elided, valid(name))
			continue
		}
		for _, value := range all[name] {
			m.Headers = append(m.Headers, &trafficv1.Header{Name: valid(name), Value: valid(value)})
		}
	}
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
