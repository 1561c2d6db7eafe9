package meshes

import (
	"cmp"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/routeserver/table"
)

// Asked is the routing that a table requires of the meshes for one Target.
type Asked struct {
	Target
	// Sandbox is the name of the destination sandbox, for messages.
	Sandbox string
	// Mappings map ports of the Target's Service to Services of the sandbox.
	Mappings []crdv1.IstioPortMapping
	// baseline is the workload of which the sandbox has a fork.
	baseline table.Workload
}

// AskedOf returns the routing that a table requires, by routing key and sorted by Service. Rules
// without a destination are left out: their requests stay with the baseline. So are destinations that replace no Service:
// sidecars alone send requests there, and take them back.
func AskedOf(t table.Table) map[string][]Asked {
	out := map[string][]Asked{}
	for r := range t.All() {
		for _, m := range r.Mappings {
			for _, d := range m.Destinations {
				if d.Service == "" {
					continue
				}
				to, _, _ := strings.Cut(d.Host, ".")
				at := Asked{Target: Target{r.RoutingKey, r.Baseline.Namespace, d.Service}, Sandbox: r.Sandbox, baseline: r.Baseline}
				out[at.Key] = addMapping(out[at.Key], at, crdv1.IstioPortMapping{FromPort: int32(d.Port), ToService: to, WorkloadPort: int32(m.WorkloadPort)})
			}
		}
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b Asked) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service))
		})
		for _, a := range all {
			slices.SortFunc(a.Mappings, func(a, b crdv1.IstioPortMapping) int { return cmp.Compare(a.FromPort, b.FromPort) })
		}
	}
	return out
}

// addMapping adds a port mapping to the entry of a Target and returns all; the first mapping of a port
// wins. If a Service selects pods of two baselines that both have a sandbox, the first baseline wins
// for all ports, as in package routing, which reports the conflict on the other one.
func addMapping(all []Asked, at Asked, m crdv1.IstioPortMapping) []Asked {
	i := slices.IndexFunc(all, func(a Asked) bool { return a.Target == at.Target })
	if i < 0 {
		i, all = len(all), append(all, at)
	}
	if all[i].baseline != at.baseline {
		return all
	}
	if !slices.ContainsFunc(all[i].Mappings, func(other crdv1.IstioPortMapping) bool { return other.FromPort == m.FromPort }) {
		all[i].Mappings = append(all[i].Mappings, m)
	}
	return all
}
