package table

import "slices"

// Workload names a baseline as the routes API does: kind is Deployment or
// ArgoRollout.
type Workload struct {
	Kind, Namespace, Name string
}

// Rule says: requests for Baseline that carry RoutingKey belong to Sandbox. Its
// identity is (Baseline, RoutingKey). A rule is shared between table versions
// and readers: it is read only.
type Rule struct {
	Baseline   Workload
	RoutingKey string
	// Sandbox is the destination as its users know it (SIGNADOT_SANDBOX_NAME).
	Sandbox string
	// Mappings has one entry for each port of the baseline that a Service leads
	// to, sorted by port. Empty for a workload without a Service: consumers of
	// message queues still need the rule.
	Mappings []Mapping
	// Ready: the destination can serve now. A rule that is not ready stays: its
	// requests fail visibly instead of reaching the baseline.
	Ready bool
	// Member is the sandboxed workload that serves the rule.
	Member Member
	// Declared and Observed are the sequences of the two facts that made the
	// rule, in the epoch of the table: who declared the key, and who observed
	// the member. They are provenance, not content: Equal, Hash and Diff do not
	// look at them, so that a fact stated again changes nothing.
	Declared, Observed uint64
}

// Mapping lists the destinations for one port that the baseline listens on.
// They are equivalent; readers may take the first. Sorted by host, then port.
type Mapping struct {
	WorkloadPort uint32
	Destinations []Destination
}

// Destination is one Service port of the sandbox's side.
type Destination struct {
	// Host is the Service's name in the cluster: <service>.<namespace>.svc.
	Host string
	// Port is the Service's own port.
	Port uint32
	// Address is the Service's cluster IP, or empty for a headless one.
	Address string
}

// Member names the object that stands behind a rule.
type Member struct {
	Kind, Namespace, Name, UID string
}

// Equal tells whether two rules say the same, whatever facts they came from.
// Either may be nil, which equals only nil.
func (r *Rule) Equal(other *Rule) bool {
	if r == nil || other == nil || r == other {
		return r == other
	}
	return r.Baseline == other.Baseline && r.RoutingKey == other.RoutingKey &&
		r.Sandbox == other.Sandbox && r.Ready == other.Ready && r.Member == other.Member &&
		MappingsEqual(r.Mappings, other.Mappings)
}

// MappingsEqual tells whether two lists of mappings say the same.
func MappingsEqual(a, b []Mapping) bool {
	return slices.EqualFunc(a, b, func(a, b Mapping) bool {
		return a.WorkloadPort == b.WorkloadPort && slices.Equal(a.Destinations, b.Destinations)
	})
}
