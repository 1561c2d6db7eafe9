package explain

import (
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

// MaxCauses is how many events at most are named for one change: the newest.
const MaxCauses = 64

// Change is a decision that differs between two versions, and the events between
// them that made it so, oldest first: the last one decides. An event is one of
// them exactly when folding it changed the decision, so a fact stated again with
// the same content never is. Of a decision that went to and fro all are named,
// up to MaxCauses.
type Change struct {
	table.Change
	Because []event.Recorded
}

// Causes finds the events that caused the changes between two versions. Create one with NewCauses,
// pass the events between the versions to Take in order, then call Changes.
type Causes struct {
	at      table.Table
	changes []Change
	index   map[decision]int
}

// decision is what a rule's identity is.
type decision struct {
	baseline   table.Workload
	routingKey string
}

// NewCauses begins at the older version, with the changes (table.Diff) that are
// asked about.
func NewCauses(older table.Table, changes []table.Change) *Causes {
	c := &Causes{at: older, index: make(map[decision]int, len(changes))}
	for i, change := range changes {
		c.changes = append(c.changes, Change{Change: change})
		c.index[decision{change.Baseline, change.RoutingKey}] = i
	}
	return c
}

// Take folds the next events. Events can be limited to the keys that the changes depend on (Keys):
// others make no difference.
func (c *Causes) Take(events ...event.Recorded) {
	for _, e := range events {
		next := c.at.Apply(e)
		for _, d := range table.Diff(c.at, next) {
			if i, asked := c.index[decision{d.Baseline, d.RoutingKey}]; asked {
				change := &c.changes[i]
				change.Because = append(change.Because, e)
				change.Because = change.Because[max(0, len(change.Because)-MaxCauses):]
			}
		}
		c.at = next
	}
}

// Changes returns the changes, in their order, with their causes.
func (c *Causes) Changes() []Change { return c.changes }

// Keys returns the keys of the members on which the decisions of one routing key
// depended behind a sequence: all that any declaration named since, or just
// before. Give it the whole history of the routing key.
func Keys(ofKey []event.Recorded, behind uint64) []event.Key {
	var out []event.Key
	for i, e := range ofKey {
		before := i+1 < len(ofKey) && ofKey[i+1].Pos.Seq <= behind
		d, ok := e.Fact.Data.(*factv1.RoutingDeclared)
		if before || !ok {
			continue
		}
		for _, m := range d.GetMembers() {
			out = append(out, keyOf(m))
		}
	}
	return lists.Unique(out)
}
