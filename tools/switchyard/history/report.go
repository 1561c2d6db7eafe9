package history

import (
	"cmp"
	"encoding/json"

	"switchyard.dev/eventbus/event"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/messages"
	"switchyard.dev/tools/switchyard/show"
)

// Reports are the results of commands that have no message in the API. Their JSON is part of the
// interface.
type (
	bisectReport struct {
		FirstBad string            `json:"firstBad"`
		LastGood string            `json:"lastGood"`
		Exact    bool              `json:"exact"`
		Probes   int               `json:"probes"`
		Events   []json.RawMessage `json:"events"`
		Diff     json.RawMessage   `json:"diff"`
	}
	auditReport struct {
		Intact  bool          `json:"intact"`
		Epoch   string        `json:"epoch"`
		Floor   uint64        `json:"floor,string"`
		Tip     uint64        `json:"tip,string"`
		Events  uint64        `json:"events,string"`
		Mark    string        `json:"mark,omitempty"`
		Against string        `json:"heldAgainst,omitempty"`
		Finding *auditFinding `json:"finding,omitempty"`
	}
	auditFinding struct {
		Kind     string `json:"kind"`
		Sequence uint64 `json:"sequence,string"`
		Line     uint64 `json:"line,omitempty,string"`
		Reason   string `json:"reason"`
		// Event is the event at this position, if it can be decoded.
		Event json.RawMessage `json:"event,omitempty"`
	}
)

func (r *bisectReport) set(events []*routingv1.Event, diff *routingv1.DiffResponse) (err error) {
	for _, e := range events {
		b, err := show.Written(e)
		if err != nil {
			return err
		}
		r.Events = append(r.Events, b)
	}
	r.Diff, err = show.Written(diff)
	return err
}

// eventOf decodes an event of a log. One of an unknown, newer kind has an empty statement.
func eventOf(s event.Stored) (*routingv1.Event, error) {
	r, err := event.Open(s)
	if err != nil && r.Fact.Key == "" {
		return nil, err
	}
	out := messages.Event(r)
	out.Statement = cmp.Or(out.Statement, &routingv1.Statement{})
	return out, nil
}
