package show

import (
	"fmt"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// History returns the text for recorded events.
func (p *Printer) History(h *routingv1.HistoryResponse) string {
	floor := beginning(h.GetFloor()) + "\n"
	if len(h.GetEvents()) == 0 {
		return "nothing was stated of it, as far as the log is kept; " + floor
	}
	return p.Events(h.GetEvents()) + "\n" + Many(len(h.GetEvents()), "event") + "; " + floor
}

// Events returns events, a row for each.
func (p *Printer) Events(events []*routingv1.Event) string {
	rows := Grid{{"SEQUENCE", "RECORDED", "AGE", "WHAT", "BY"}}
	for _, e := range events {
		rows = append(rows, []string{
			fmt.Sprint(e.GetPosition().GetSequence()), p.Clock(e.GetRecorded()), p.age(e.GetRecorded()), Statement(e.GetStatement()), Cause(e.GetCause()),
		})
	}
	return rows.String()
}

// Kept returns what a log keeps.
func (p *Printer) Kept(k *routingv1.KeptResponse) string {
	rows := Grid{
		{"oldest version", p.Version(k.GetOldest())},
		{"newest version", p.Version(k.GetNewest())},
		{"first event", Place(k.GetFloor())},
	}
	if k.GetBytes() > 0 {
		size := fmt.Sprintf("%d bytes", k.GetBytes())
		if k.GetMaxBytes() > 0 {
			size += fmt.Sprintf(" of at most %d", k.GetMaxBytes())
		}
		rows = append(rows, []string{"size", size})
	}
	return rows.String()
}

// beginning returns how far back a log goes.
func beginning(floor *routingv1.Position) string {
	if floor.GetSequence() <= 1 {
		return "the log begins at " + Place(floor)
	}
	return "the log begins at " + Place(floor) + ", earlier events were removed"
}
