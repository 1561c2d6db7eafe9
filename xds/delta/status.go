package delta

import (
	"cmp"
	"slices"
)

// Status is the state of one resource at this client.
type Status struct {
	Type, Name string
	// Sent is the version that was sent last and Acked the last one accepted;
	// either may be "". They are the same when the client is current.
	Sent, Acked string
	// Rejected is the last version that the client refused since it accepted one, and Error is
	// the client's message; both are "" when it refused none.
	Rejected, Error string
}

// InFlight reports whether a version was sent that the client has neither accepted
// nor refused.
func (s Status) InFlight() bool { return s.Sent != "" && s.Sent != s.Acked && s.Sent != s.Rejected }

// Statuses returns the state of the subscriptions that which chooses, all if it is
// nil, sorted by type and name, added to a list.
func (s *Stream) Statuses(to []Status, which func(typeURL, name string) bool) []Status {
	from := len(to)
	for _, subs := range s.byType {
		if subs == nil {
			continue
		}
		for _, k := range subs.names {
			if which == nil || which(subs.typeURL, k.name) {
				is := Status{Type: subs.typeURL, Name: k.name, Sent: k.sent, Acked: k.acked}
				if k.refusals != nil {
					is.Rejected, is.Error = k.refusals.rejected, k.refusals.why
				}
				to = append(to, is)
			}
		}
	}
	slices.SortFunc(to[from:], func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	return to
}
