// Package record keeps the books of captures. It is pure, and not safe for concurrent use.
//
//	Books    of a traffic container: seen = delivered + sampled out + lost(reason) + in flight, for each capture
//	Merge    of the reports of all replicas of traffic-manager:
//	         seen = stored + sampled out + evicted + lost(reason) + pending
//	Keyed    whether a capture or an override is for requests with a key
//	Selects  whether a capture records a trace, the same in each pod
//	Add      adds to a set of numbers
package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// InFlight is the bound on the bytes of a container's exchanges from their first byte until they are delivered.
const InFlight = 16 << 20

// The reasons for which exchanges are lost.
const (
	// Budget: there was no room for it in flight.
	Budget = "budget"
	// Refused by traffic-manager, or larger than it takes.
	Refused = "refused"
	// Ended: the capture or the container ended before it was delivered.
	Ended = "ended"
	// Unreadable: its connection could not be parsed any more.
	Unreadable = "unreadable"
	// Restart: the container, or the replica that had stored it, terminated. It is computed by Merge.
	Restart = "restart"

	other = "other"
)

// reasons are those that a container counts. A file has their counters in this order: add new ones before the last.
var reasons = [...]string{Budget, Refused, Ended, Unreadable, other}

// Counters are those of one capture. They have no pointers, so a mapped file can have them.
type Counters struct {
	Seen, Delivered, SampledOut uint64
	// Number is how many exchanges are finished.
	Number uint64
	// Lost is by reason.
	Lost [8]uint64
}

// Message returns the counters for traffic-manager.
func (c *Counters) Message(capture string) *trafficv1.CaptureCounts {
	m := &trafficv1.CaptureCounts{CaptureUid: capture, Seen: c.Seen, Delivered: c.Delivered, SampledOut: c.SampledOut}
	for i, reason := range reasons {
		if c.Lost[i] > 0 {
			if m.Lost == nil {
				m.Lost = map[string]uint64{}
			}
			m.Lost[reason] = c.Lost[i]
		}
	}
	return m
}

// Books are those of one container. All its captures share the bytes in flight.
type Books struct {
	// Counters returns where to count a capture, with its counters so far. Default: in memory, from zero.
	Counters func(capture string) *Counters

	room     int64
	captures map[string]*book
}

// book is that of one capture. inFlight counts exchanges.
type book struct {
	*Counters
	inFlight uint64
}

// New returns books with a bound on the bytes in flight.
func New(inFlight int64) *Books {
	return &Books{room: inFlight, captures: map[string]*book{}, Counters: func(string) *Counters { return &Counters{} }}
}

// Entry is an exchange in flight. It ends with Delivered or Lost; calls after that have no effect.
type Entry struct {
	books  *Books
	book   *book
	bytes  int64
	number uint64
	ended  bool
}

// Begin begins an exchange of a capture, after Seen. bytes is the room that it needs now. It returns nil, and has
// counted why, if the exchange is not to be kept.
func (b *Books) Begin(c *trafficv1.Capture, trace string, bytes int64) *Entry {
	of := b.of(c)
	if !Selects(c, trace) {
		of.SampledOut++
		return nil
	}
	of.inFlight++
	e := &Entry{books: b, book: of}
	if !e.Grow(bytes) {
		return nil
	}
	return e
}

// Skip counts an exchange of a capture as sampled out, after Seen.
func (b *Books) Skip(c *trafficv1.Capture) { b.of(c).SampledOut++ }

// Seen counts an exchange of a capture as seen.
func (b *Books) Seen(c *trafficv1.Capture) { b.of(c).Seen++ }

func (b *Books) of(c *trafficv1.Capture) *book {
	of := b.captures[c.GetUid()]
	if of == nil {
		of = &book{Counters: b.Counters(c.GetUid())}
		b.captures[c.GetUid()] = of
	}
	return of
}

// Grow reserves more room, if bytes is negative less. If there is not enough the exchange is lost.
func (e *Entry) Grow(bytes int64) bool {
	if e.ended {
		return false
	}
	if bytes > e.books.room {
		e.Lost(Budget)
		return false
	}
	e.books.room -= bytes
	e.bytes += bytes
	return true
}

// Finish returns the number of an exchange that is complete: from 1, without gaps. Later calls return the same; 0: it is lost.
func (e *Entry) Finish() uint64 {
	if e.number == 0 && !e.ended {
		e.book.Number++
		e.number = e.book.Number
	}
	return e.number
}

// Delivered counts an exchange as delivered.
func (e *Entry) Delivered() {
	if e.end() {
		e.book.Delivered++
	}
}

// Lost counts an exchange as lost.
func (e *Entry) Lost(reason string) {
	if e.end() {
		i := slices.Index(reasons[:], reason)
		if i < 0 {
			i = len(reasons) - 1
		}
		e.book.Lost[i]++
	}
}

// end returns the room. It reports whether the exchange was in flight.
func (e *Entry) end() bool {
	if e.ended {
		return false
	}
	e.ended = true
	e.book.inFlight--
	e.books.room += e.bytes
	return true
}

// Counts returns the counters of captures, by UID; of all captures if none is named.
func (b *Books) Counts(uids ...string) (all []*trafficv1.CaptureCounts) {
	if len(uids) == 0 {
		uids = slices.Sorted(maps.Keys(b.captures))
	}
	for _, uid := range uids {
		if of := b.captures[uid]; of != nil {
			all = append(all, of.Message(uid))
		}
	}
	return all
}

// Forget removes the book of a capture that has ended. It reports false while exchanges are in flight.
func (b *Books) Forget(uid string) bool {
	if of := b.captures[uid]; of != nil && of.inFlight > 0 {
		return false
	}
	delete(b.captures, uid)
	return true
}

// Selects reports whether a capture records a trace: one of those that it names, or of its sample.
func Selects(c *trafficv1.Capture, trace string) bool {
	if traces := c.GetTraces(); traces != "" {
		return strings.HasPrefix(trace, traces)
	}
	return Sampled(trace, cmp.Or(c.GetSample(), c.GetRestricted()))
}

// Keyed reports whether a capture or an override is for requests with a routing key; empty: without one.
func Keyed(of interface {
	GetRoutingKeys() []string
	GetExceptRoutingKeys() []string
}, key string) bool {
	if only := of.GetRoutingKeys(); len(only) > 0 {
		return slices.Contains(only, key)
	}
	return !slices.Contains(of.GetExceptRoutingKeys(), key)
}

// Sampled reports whether a trace belongs to the share of traces, from 0 to 1, that is captured.
func Sampled(trace string, share float64) bool {
	if share >= 1 {
		return true
	}
	sum := sha256.Sum256([]byte(trace))
	const bits = 53 // of a float64, exactly
	return float64(binary.BigEndian.Uint64(sum[:])>>(64-bits))/(1<<bits) < share
}

// Trace returns the IDs of trace and parent in a header traceparent (W3C Trace Context). Without a valid one the trace is own,
// which is the request's ID.
func Trace(traceparent, own string) (trace, parent string) {
	parts := strings.Split(strings.ToLower(strings.TrimSpace(traceparent)), "-")
	if len(parts) < 4 || !hex(parts[0], 2) || !hex(parts[1], 32) || !hex(parts[2], 16) || parts[0] == "ff" || strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return own, ""
	}
	return parts[1], parts[2]
}

func hex(text string, n int) bool {
	return len(text) == n && strings.Trim(text, "0123456789abcdef") == ""
}
