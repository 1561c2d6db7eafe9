package table

import (
	"fmt"
	"slices"

	"switchyard.dev/routeserver/table/hamt"
)

// Rule assigns requests for Baseline that carry RoutingKey to Sandbox. Its identity is (Baseline,
// RoutingKey). It joins a declaration and an observation, or is a declaration of a member that does
// not exist (Absent), and shares both with the other rules of the same key and of the same member,
// to keep a hundred thousand rules in memory. Neither is nil, and everything is read only: versions
// of the table and their readers share it too.
type Rule struct {
	*Declaration // RoutingKey, Declared
	*Serving     // Baseline, Mappings, Ready, Member, Observed
	// Sandbox is the destination as its users know it (SIGNADOT_SANDBOX_NAME).
	Sandbox string
}

// keptKind is the kind of members that keep their requests at the baseline.
const keptKind = "VirtualWorkload"

// Kept reports whether such requests stay with the baseline on purpose: the member is a
// VirtualWorkload, which has no pods of its own. The rule records that the key is owned for this
// baseline, and by which member. Readers must not treat that as a missing destination, nor as one
// that is not ready. A destination that it has records requests and passes them on to the baseline
// (decision record 0092).
func (r *Rule) Kept() bool { return r.Member.Kind == keptKind }

// Absent reports whether the member does not exist, or was not observed to represent a
// baseline, while its key is declared with the baseline that it represents. Such a rule is
// never ready: requests for a member that does not exist fail visibly (decision record 0053).
func (s *Serving) Absent() bool { return s.Observed == 0 }

// Declaration is the newest declaration of a routing key.
type Declaration struct {
	RoutingKey string
	// Declared is the sequence of the fact that declared the key, in the epoch of the table. It is
	// provenance, not content: Equal, Hash and Diff ignore it, so that a fact published again
	// changes nothing.
	Declared uint64

	// members are those that the key names, each once; none for a key that was
	// withdrawn.
	members []*named
}

// ID is for the table's own maps.
func (d *Declaration) ID() hamt.Text { return hamt.Text(d.RoutingKey) }

// Serving is the newest thing seen of a sandboxed workload that is there, or what a
// declaration states of one that is not (Absent).
type Serving struct {
	*Place // Baseline
	// Mappings has one entry for each port of the baseline that a Service maps to, sorted by port.
	// Empty for a workload without a Service: consumers of message queues still need the rule. In a
	// rule that is Kept only ports with requests that are recorded have destinations.
	Mappings []Mapping
	// Ready: the destination can serve now. A rule that is not ready stays: its
	// requests fail visibly instead of reaching the baseline.
	Ready bool
	// createdNanos and createdSeconds are the creation time of the member's object.
	createdNanos int32
	// Member is the sandboxed workload itself.
	Member Member
	// Observed is the sequence of the fact with the observation of the member, in the epoch of the
	// table. It is provenance, like Declared. 0: no fact (Absent).
	Observed uint64

	createdSeconds int64
}

// Place is where sandboxed workloads stand in: there is one for each baseline.
type Place struct {
	// words and hash are those of the baseline. What a lookup compares comes
	// first, to lie in as few lines of the cache as can be.
	words workloadWords
	hash  uint64

	Baseline Workload
}

// Member names the object that stands behind a rule.
type Member struct {
	Kind, Namespace, Name, UID string
}

// Mapping lists the destinations for one port that the baseline listens on.
// They are equivalent; readers may take the first. Sorted by host, then port. A
// fact cannot make a mapping without any, unless the rule is Kept.
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
	// Service is the baseline Service that it replaces, in the same namespace. It is derived from
	// Host, so Equal, Hash and Diff ignore it.
	Service string
}

// same reports whether the two are one destination.
func (d Destination) same(other Destination) bool { return d.compare(other) == 0 }

// Equal reports whether two rules have the same content, regardless of the facts they came from.
// Either can be nil, which equals only nil.
func (r *Rule) Equal(other *Rule) bool {
	if r == nil || other == nil || r == other {
		return r == other
	}
	return r.RoutingKey == other.RoutingKey && r.Sandbox == other.Sandbox && r.Serving.equal(other.Serving)
}

func (s *Serving) equal(other *Serving) bool {
	return s == other || s.Baseline == other.Baseline && s.Ready == other.Ready && s.Member == other.Member &&
		mappingsEqual(s.Mappings, other.Mappings)
}

// String returns a rule as readable text in one line.
func (r *Rule) String() string {
	if r == nil {
		return "no rule"
	}
	if r.Kept() {
		return fmt.Sprintf("%s %s/%s, key %s -> itself, for sandbox %s (%s %s)",
			r.Baseline.Kind, r.Baseline.Namespace, r.Baseline.Name, r.RoutingKey, r.Sandbox, r.Member.Kind, r.Member.Name)
	}
	return fmt.Sprintf("%s %s/%s, key %s -> sandbox %s (%s %s, ready %v)",
		r.Baseline.Kind, r.Baseline.Namespace, r.Baseline.Name, r.RoutingKey,
		r.Sandbox, r.Member.Kind, r.Member.Name, r.Ready)
}

// mappingsEqual reports whether two lists of mappings are equal.
func mappingsEqual(a, b []Mapping) bool {
	return slices.EqualFunc(a, b, func(a, b Mapping) bool {
		return a.WorkloadPort == b.WorkloadPort && slices.EqualFunc(a.Destinations, b.Destinations, Destination.same)
	})
}
