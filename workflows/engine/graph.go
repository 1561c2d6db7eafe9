package engine

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/iocontext"
)

// The fields of the graphs.
const (
	FieldPreStart = "preStart"
	FieldPostStop = "postStop"
)

// Check returns the problems of the graphs of an object before anything runs, the worst first:
// duplicate names, inputs without a source, cycles. Units of postStop may read outputs of
// preStart.
func Check(o crdv1.OLM) []string {
	c := checking{names: map[string]string{}}
	for _, g := range []struct {
		field string
		units []crdv1.WorkUnit
	}{{FieldPreStart, o.PreStart}, {FieldPostStop, o.PostStop}} {
		for i, u := range g.units {
			c.name(fmt.Sprintf("%s[%d]", g.field, i), u)
		}
	}
	c.inputs(FieldPreStart, o.PreStart, o.PreStart)
	c.inputs(FieldPostStop, o.PostStop, slices.Concat(o.PreStart, o.PostStop))
	if len(c.problems) == 0 {
		c.cycle(FieldPreStart, o.PreStart)
		c.cycle(FieldPostStop, o.PostStop)
	}
	return c.problems
}

// checking is one check of the graphs of an object.
type checking struct {
	names    map[string]string // The field in which each name of a unit is used.
	problems []string
}

func (c *checking) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// name checks the names of a unit and its outputs, which together name a value.
func (c *checking) name(at string, u crdv1.WorkUnit) {
	if other, taken := c.names[u.Name]; taken {
		c.add("%s.name is %q, which %s has: give each step of preStart and postStop a name of its own", at, u.Name, other)
	}
	if c.names[u.Name] = at; u.Name == "" {
		c.add("%s has no name: give it one that no other step has", at)
	}
	for i, out := range u.Outputs {
		if first := slices.Index(u.Outputs, out); first < i {
			c.add("%s.outputs[%d].name is %q, as that of outputs[%d]: give each output of a step a different name", at, i, out.Name, first)
		}
	}
}

// inputs checks that every input of units has a source: outputs of units in before.
func (c *checking) inputs(field string, units, before []crdv1.WorkUnit) {
	for i, u := range units {
		for k, in := range u.Inputs {
			at := fmt.Sprintf("%s[%d].inputs[%d]", field, i, k)
			if slices.IndexFunc(u.Inputs, func(o crdv1.WorkUnitInput) bool { return o.Name == in.Name }) < k {
				c.add("%s.name is %q, which another input of step %s has: give each a different name", at, in.Name, u.Name)
			}
			if in.IOContext == nil {
				continue
			}
			if in.Value != "" {
				c.add("%s of step %s has both value and iocontext: remove one of them", at, u.Name)
			}
			if producer(before, in.IOContext.Key) == nil {
				c.add("%s of step %s reads %q, which no step gives: write it as STEP.OUTPUT, of a step that has that output", at, u.Name, in.IOContext.Key)
			}
		}
	}
}

// cycle adds a problem for units that wait for each other.
func (c *checking) cycle(field string, units []crdv1.WorkUnit) {
	const underWay, done = 1, 2
	seen := map[string]int{}
	var path []string
	var visit func(u *crdv1.WorkUnit) bool
	visit = func(u *crdv1.WorkUnit) bool {
		path = append(path, u.Name)
		if seen[u.Name] == underWay {
			from := slices.Index(path, u.Name)
			c.add("%s has steps that wait for each other: %s. Take one of these inputs away", field, strings.Join(path[from:], " reads "))
			return true
		}
		if seen[u.Name] == 0 {
			seen[u.Name] = underWay
			if slices.ContainsFunc(Needs(*u, units), func(name string) bool { return visit(named(units, name)) }) {
				return true
			}
			seen[u.Name] = done
		}
		path = path[:len(path)-1]
		return false
	}
	for i := range units {
		if visit(&units[i]) {
			return
		}
	}
}

// Needs returns the names of the units that produce the inputs of u, each once.
func Needs(u crdv1.WorkUnit, units []crdv1.WorkUnit) []string {
	var out []string
	for _, key := range keys(u) {
		if p := producer(units, key); p != nil && !slices.Contains(out, p.Name) {
			out = append(out, p.Name)
		}
	}
	return out
}

// keys returns the keys of other units' outputs that a unit reads.
func keys(u crdv1.WorkUnit) []string {
	var out []string
	for _, in := range u.Inputs {
		if in.IOContext != nil {
			out = append(out, in.IOContext.Key)
		}
	}
	return out
}

// producer returns the unit that produces a value; nil when none does.
func producer(units []crdv1.WorkUnit, key string) *crdv1.WorkUnit {
	return lists.First(lists.Pointers(units), func(u *crdv1.WorkUnit) bool {
		return slices.ContainsFunc(u.Outputs, func(out crdv1.WorkUnitOutput) bool { return iocontext.OutputKey(u.Name, out.Name) == key })
	})
}

// named returns the unit of this name; nil when there is none.
func named(units []crdv1.WorkUnit, name string) *crdv1.WorkUnit {
	return lists.First(lists.Pointers(units), func(u *crdv1.WorkUnit) bool { return u.Name == name })
}
