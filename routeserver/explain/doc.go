// Package explain determines where a request is routed and why, and which events changed a
// decision. It is pure: the caller (routeserver/api) gathers the evidence, and the package
// evaluates it.
//
// # How an answer is found
//
// Explain checks the stages of a request in order, and returns the first that decides:
//
//	no whole table                → TableNotWhole
//	no routing key in the request → NoKey
//	the key has no declaration    → NeverDeclared, Withdrawn
//	no Service has the address    → UnknownDestination
//	no rule for the baseline      → MemberGone, NotObserved, NotAMember
//	a rule that keeps it there    → KeptAtBaseline, once no sidecar has older routes
//	no Service port maps to it    → PortNotMapped
//	a rule, and no sidecar        → NoSidecar
//	a sidecar with older routes   → NotAcknowledged
//	a port that is not mapped     → PortNotMapped
//	a destination that cannot     → NotReady, PortNotMapped
//	another member owns the rule  → Lost
//	otherwise                     → Routed
//
// # Causes
//
// A fact is often published again with the same content: by a new leader, or when the log raises
// its floor. Such an event is no cause. So the events of an answer are the first retained ones
// since which the content of their key is unchanged (Since); and Diff reports an event as a cause
// exactly when folding it changes the decision.
package explain
