package capture

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/elide"
	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/xds/routingkey"
)

const (
	// fixed is the room of an exchange without headers and bodies, and field that of a header beside its text.
	fixed, field = 1024, 64
	// offset is the room of the end of a message.
	offset = 8
)

// overrideHeader marks answers of an override.
const overrideHeader = "sd-override"

// exchange is the copy of one exchange for one capture.
type exchange struct {
	r     *Recorder
	of    *target
	entry *record.Entry
	began time.Time
	x     *trafficv1.Exchange
	// lost: nothing more is kept.
	lost bool
	// sums are the hashes of the bodies; nil: without a body.
	sums [2]hash.Hash
}

// begin returns nil if the exchange is not kept.
func (r *Recorder) begin(t *target, h parse.Head, port *trafficv1.Port) *exchange {
	var random [16]byte
	binary.BigEndian.PutUint64(random[:8], rand.Uint64())
	binary.BigEndian.PutUint64(random[8:], rand.Uint64())
	id := hex.EncodeToString(random[:])
	trace, parent := record.Trace(parse.Value(h.Fields, "traceparent"), id)
	key := routingkey.Of(func(name string) []string { return values(h.Fields, name) }, nil)
	var entry *record.Entry
	r.mu.Lock()
	if record.Keyed(t.Capture, key) {
		entry = r.books.Begin(t.Capture, trace, fixed+room(h.Fields)+int64(len(h.Target)))
	} else {
		r.books.Skip(t.Capture)
	}
	r.mu.Unlock()
	if entry == nil {
		return nil
	}
	e := &exchange{r: r, of: t, entry: entry, began: time.Now()}
	request := &trafficv1.Message{Method: valid(h.Method), Target: valid(h.Target), Authority: valid(h.Authority)}
	request.Headers, request.Elided = t.headers(elide.Request, h.Fields)
	e.x = &trafficv1.Exchange{
		Id: id, CaptureUid: t.GetUid(), Port: port.GetApplication(), Member: port.GetMember(),
		Began: timestamppb.New(e.began), Request: request, Protocol: valid(protocol(h)),
		TraceId: trace, ParentId: parent, Incarnation: r.Incarnation, RoutingKey: valid(key),
	}
	return e
}

// protocol returns the published name.
func protocol(h parse.Head) string {
	if h.Protocol == "HTTP/2" && strings.HasPrefix(parse.Value(h.Fields, "content-type"), "application/grpc") {
		return "grpc"
	}
	return h.Protocol
}

// headers returns those that are kept, and the names of the others.
func (t *target) headers(s elide.Side, fields []parse.Field) ([]*trafficv1.Header, []string) {
	room, all := make([]trafficv1.Header, len(fields)), make([]*trafficv1.Header, len(fields))
	for i, f := range fields {
		all[i] = &room[i]
		all[i].Name, all[i].Value = f.Name, f.Value
	}
	return t.rules.Headers(s, all)
}

// grow reserves room. Without it, the copy is dropped.
func (e *exchange) grow(bytes int64) bool {
	if e.lost {
		return false
	}
	e.r.mu.Lock()
	ok := e.entry.Grow(bytes)
	e.r.mu.Unlock()
	if !ok {
		e.lost, e.x, e.sums = true, nil, [2]hash.Hash{}
	}
	return ok
}

func (e *exchange) message(s parse.Side) *trafficv1.Message {
	if s == parse.Request {
		return e.x.Request
	}
	if e.x.Response == nil { // a body without a head
		e.x.Response = &trafficv1.Message{}
	}
	return e.x.Response
}

// Respond implements parse.Exchange.
func (e *exchange) Respond(h parse.Head) {
	if !e.grow(room(h.Fields)) {
		return
	}
	m := &trafficv1.Message{Status: uint32(h.Status)} //nolint:gosec // three digits
	m.Headers, m.Elided = e.of.headers(elide.Response, h.Fields)
	e.x.Response, e.x.ToHeaders = m, durationpb.New(time.Since(e.began))
	e.x.Overridden = strings.EqualFold(parse.Value(h.Fields, overrideHeader), "true")
	if h.Status == 101 && strings.EqualFold(parse.Value(h.Fields, "upgrade"), "websocket") {
		e.x.Protocol = "websocket"
	}
}

// Body implements parse.Exchange.
func (e *exchange) Body(s parse.Side, b []byte) {
	if e.lost {
		return
	}
	m := e.message(s)
	limit := int(e.of.GetBodyBytes())
	if n := min(len(b), limit-len(m.Body)); n > 0 {
		if need := len(m.Body) + n; need > cap(m.Body) {
			larger := min(limit, max(2*cap(m.Body), need))
			if !e.grow(int64(larger - cap(m.Body))) {
				return
			}
			m.Body = append(make([]byte, 0, larger), m.Body...)
		}
		m.Body = append(m.Body, b[:n]...)
	}
	m.BodySize += uint64(len(b))
	if e.sums[s] == nil {
		e.sums[s] = sha256.New()
	}
	_, _ = e.sums[s].Write(b) // it returns no error
}

// Message implements parse.Exchange. Ends beyond the kept bytes are left out.
func (e *exchange) Message(s parse.Side) {
	if e.lost {
		return
	}
	if m := e.message(s); m.BodySize == uint64(len(m.Body)) && e.grow(offset) {
		m.Frames = append(m.Frames, m.BodySize)
	}
}

// Trailers implements parse.Exchange.
func (e *exchange) Trailers(s parse.Side, fields []parse.Field) {
	if !e.grow(room(fields)) {
		return
	}
	m := e.message(s)
	kept, elided := e.of.headers(elide.Side(s), fields)
	m.Trailers, m.Elided = append(m.Trailers, kept...), append(m.Elided, elided...)
}

// End implements parse.Exchange.
func (e *exchange) End(problem string) {
	if e.lost {
		return
	}
	e.x.ToEnd, e.x.Problem = durationpb.New(time.Since(e.began)), problem
	for s, m := range []*trafficv1.Message{e.x.Request, e.x.Response} {
		if e.sums[s] != nil {
			m.BodySha256 = e.sums[s].Sum(nil)
		}
		if m == nil {
			continue
		}
		was := len(m.Body)
		if e.of.rules.Body(m); !e.grow(int64(len(m.Body) - was)) {
			return
		}
	}
	e.r.mu.Lock()
	e.x.Number = e.entry.Finish()
	e.r.mu.Unlock()
	e.lost = true // nothing follows
	e.r.Finished(Finished{e.x, proto.Size(e.x), e.entry})
}

// room is that of headers.
func room(fields []parse.Field) (n int64) {
	for _, f := range fields {
		n += int64(len(f.Name) + len(f.Value) + field)
	}
	return n
}

func values(fields []parse.Field, name string) (all []string) {
	for _, f := range fields {
		if len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			all = append(all, f.Value)
		}
	}
	return all
}

// valid returns a text that a message can have.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
