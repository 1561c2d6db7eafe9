package engine

import crdv1 "switchyard.dev/protos/crd/v1"

// Place is the place of a unit in the picture of its graph.
type Place struct {
	// Unit is its name.
	Unit string
	// Depth is the length of the longest chain of units before it.
	Depth int
	// WaitsFor are the units of the graph that produce its inputs.
	WaitsFor []string
}

// Picture returns the units of a graph in an order in which they can run, each below one that it
// waits for. Units that wait for each other come last, in the given order.
func Picture(units []crdv1.WorkUnit) []Place {
	waits, depth := map[string][]string{}, map[string]int{}
	for _, u := range units {
		waits[u.Name] = Needs(u, units)
	}
	for range units { // the longest path to a unit has fewer steps than there are units
		for name, before := range waits {
			for _, other := range before {
				depth[name] = max(depth[name], min(depth[other]+1, len(units)))
			}
		}
	}
	below := map[string][]string{} // The units shown below a unit: those that wait for it, and for none that is deeper.
	for _, u := range units {
		above := ""
		for _, name := range waits[u.Name] {
			if depth[name] == depth[u.Name]-1 {
				above = name
			}
		}
		below[above] = append(below[above], u.Name)
	}
	var out []Place
	drawn := map[string]bool{}
	var draw func(name string)
	draw = func(name string) {
		if drawn[name] {
			return
		}
		drawn[name] = true
		out = append(out, Place{Unit: name, Depth: depth[name], WaitsFor: waits[name]})
		for _, next := range below[name] {
			draw(next)
		}
	}
	for _, name := range below[""] {
		draw(name)
	}
	for _, u := range units {
		draw(u.Name)
	}
	return out
}
