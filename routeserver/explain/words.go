package explain

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
)

func quoted(s string) string { return strconv.Quote(s) }

// Object returns an object as sentences have it: its kind, its namespace unless it is of the
// cluster, and its name.
func Object(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// Writers returns the author of an object's specification and its last field manager as sentences have them, each
// after a comma, unless it is unknown. They need not be of the same write.
func Writers(author, manager string) (text string) {
	if author != "" {
		text = ", specification by " + author
	}
	if manager != "" {
		text += ", last written by " + manager
	}
	return text
}

func name(w table.Workload) string { return Object(w.Kind, w.Namespace, w.Name) }

// object returns which object the key of a member names.
func object(key event.Key) string {
	parts := strings.Split(string(key), "/")
	if len(parts) != 4 {
		return string(key)
	}
	return Object(parts[1], parts[2], parts[3])
}

// baseline names the baseline behind a separator, when it is known.
func (c *inquiry) baseline(separator string) string {
	if !c.known() {
		return ""
	}
	return separator + name(c.Target.Baseline)
}

// baselines names all workloads that the request can reach, after a comma.
func (c *inquiry) baselines() string {
	out := c.baseline(", ")
	for _, t := range others(c.Evidence) {
		out += " or " + name(t.Baseline)
	}
	return out
}

// moment returns when an event was recorded.
func moment(e event.Recorded) string {
	at := e.At
	if at.IsZero() {
		at = e.Fact.Time
	}
	return at.UTC().Format(time.RFC3339)
}

// by returns the author of an event, with a leading space.
func by(e event.Recorded) string {
	c := e.Fact.Cause
	if c.Kind == "" {
		return ""
	}
	object := Object(c.Kind, c.Namespace, c.Name) + Writers(c.Author, c.Manager)
	if c.Via != "" {
		object += ", through " + strings.ReplaceAll(c.Via, ",", " and ")
	}
	return " (by " + object + ")"
}

// asFarAsKept returns the qualification of a statement about a key without history.
func (c *inquiry) asFarAsKept() string {
	if c.KeptSince.IsZero() {
		return ""
	}
	return " since " + c.KeptSince.UTC().Format(time.RFC3339) + ", where the log begins"
}

func neverDeclaredHint(key string) string {
	if strings.Contains(key, "%") {
		return "Keys are taken literally: percent signs are not decoded. Send the key as the object has it."
	}
	return "Keys are compared byte for byte: compare this one with those of the sandboxes, route groups and RoutingConfigs."
}

func port(t Target) string {
	if t.WorkloadPort == 0 {
		return "any port"
	}
	return fmt.Sprintf("port %d of the workload", t.WorkloadPort)
}

// to names the destination, when the rule has one for the port.
func (c *inquiry) to() string {
	for _, d := range c.destinations() {
		return fmt.Sprintf(" (%s:%d)", d.Host, d.Port)
	}
	return ""
}

// whatServes returns the object that must exist for a member to be ready.
func whatServes(kind string) string {
	switch kind {
	case "SignadotExternalWorkload":
		return "whether its workstation is connected"
	case "VirtualWorkload":
		return "the workload that it represents"
	}
	return "the pods of the fork"
}
