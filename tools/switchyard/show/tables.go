package show

import (
	"fmt"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Rules returns a table.
func (p *Printer) Rules(t *routingv1.GetTableResponse) string {
	rows := Grid{{"BASELINE", "KEY", "SANDBOX", "PORT", "DESTINATION", "READY", "BY"}}
	for _, r := range t.GetRules() {
		ready := "yes"
		if !r.GetReady() {
			ready = "no"
		}
		destination := "no Service"
		if r.GetKeptAtBaseline() {
			destination = "the baseline"
		}
		row := []string{Name(r.GetBaseline()), r.GetRoutingKey(), r.GetSandbox(), "-", destination, ready, Name(r.GetMember())}
		if len(r.GetMappings()) == 0 || r.GetKeptAtBaseline() {
			rows = append(rows, row)
			continue
		}
		for i, m := range r.GetMappings() {
			if i > 0 {
				row = []string{"", "", "", "", "", "", ""}
			}
			row[3], row[4] = fmt.Sprint(m.GetWorkloadPort()), destinations(m)
			rows = append(rows, row)
		}
	}
	out := ""
	if len(rows) > 1 {
		out = rows.String() + "\n"
	}
	for _, c := range t.GetConflicts() {
		out += p.Paint(Yellow, Conflict(c)) + "\n"
	}
	v := t.GetVersion()
	return out + fmt.Sprintf("%s at %s, recorded %s\nhash of the whole table: %s\n", Many(len(t.GetRules()), "rule"), Place(v.GetPosition()), p.When(v.GetRecorded()), v.GetHash())
}

// Conflict returns a text with the winner and the loser of a baseline.
func Conflict(c *routingv1.Conflict) string {
	return fmt.Sprintf("%s, key %s: %s of sandbox %s gets no requests, for %s of sandbox %s is older",
		Name(c.GetBaseline()), c.GetRoutingKey(), Name(c.GetLoser()), c.GetLoserSandbox(), Name(c.GetHolder()), c.GetHolderSandbox())
}

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
