package cli

import (
	"encoding/json"
	"io"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Reports are what commands say that no message of the API says. Their JSON is
// part of the interface.
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
		// Event is what stands there, when that is an event that reads.
		Event json.RawMessage `json:"event,omitempty"`
	}
	dryRunReport struct {
		Objects  []string        `json:"objects"`
		Refusals []string        `json:"refusals"`
		Findings []string        `json:"findings"`
		Unknown  []string        `json:"unknown"`
		InTheWay bool            `json:"inTheWay"`
		Table    json.RawMessage `json:"table"`
	}
)

func (r *bisectReport) set(events []*routingv1.Event, diff *routingv1.DiffResponse) (err error) {
	for _, e := range events {
		b, err := written(e)
		if err != nil {
			return err
		}
		r.Events = append(r.Events, b)
	}
	r.Diff, err = written(diff)
	return err
}

// printReport shows a report: text for people.
func (a *app) printReport(report any, text string) error {
	if a.flags.output == outputTable {
		_, err := io.WriteString(a.Out, text)
		return err
	}
	b, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return a.write(b)
}

// eventOf reads an event of a log. One of a newer kind has no statement.
func eventOf(s event.Stored) (*routingv1.Event, error) {
	r, err := event.Open(s)
	if err != nil && r.Fact.Key == "" {
		return nil, err
	}
	c := r.Fact.Cause
	out := &routingv1.Event{
		Position: positionOf(r.Pos), Key: string(r.Fact.Key), Recorded: timestamppb.New(r.At), Statement: says(r.Fact),
		Cause: &routingv1.Cause{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Uid: c.UID, Generation: c.Generation, Manager: c.Manager, Trace: c.Trace, Via: c.Via},
	}
	if !r.Fact.Time.IsZero() {
		out.Stated = timestamppb.New(r.Fact.Time)
	}
	return out, nil
}

// says returns what a fact states; nothing for one of a kind that is not known.
func says(f event.Fact) *routingv1.Statement {
	switch d := f.Data.(type) {
	case *factv1.RoutingDeclared:
		return &routingv1.Statement{Says: &routingv1.Statement_RoutingDeclared{RoutingDeclared: d}}
	case *factv1.RoutingWithdrawn:
		return &routingv1.Statement{Says: &routingv1.Statement_RoutingWithdrawn{RoutingWithdrawn: d}}
	case *factv1.WorkloadObserved:
		return &routingv1.Statement{Says: &routingv1.Statement_WorkloadObserved{WorkloadObserved: d}}
	case *factv1.WorkloadWithdrawn:
		return &routingv1.Statement{Says: &routingv1.Statement_WorkloadWithdrawn{WorkloadWithdrawn: d}}
	case *factv1.Complete:
		return &routingv1.Statement{Says: &routingv1.Statement_Complete{Complete: d}}
	case *factv1.Floor:
		return &routingv1.Statement{Says: &routingv1.Statement_Floor{Floor: d}}
	case *factv1.KeyHeadersDeclared:
		return &routingv1.Statement{Says: &routingv1.Statement_KeyHeadersDeclared{KeyHeadersDeclared: d}}
	}
	return &routingv1.Statement{}
}
