// Package explain says where a request goes and why, and what made a decision
// another one. It is pure: a question and the evidence go in, an answer comes
// out. Gathering the evidence is for those who serve (routeserver/api).
//
// # How an answer is found
//
// Explain looks at what a request meets, in order, and answers with the first
// thing that decides:
//
//	no whole table                → TableNotWhole
//	no routing key in the request → NoKey
//	the key has no declaration    → NeverDeclared, Withdrawn
//	nothing is behind the address → UnknownDestination
//	no rule for the baseline      → MemberGone, NotObserved, NotAMember
//	a rule that keeps it there    → KeptAtBaseline, once no sidecar has older routes
//	no Service port leads to it   → PortNotMapped
//	a rule, and no sidecar        → NoSidecar
//	a sidecar with older routes   → NotAcknowledged
//	a port that is not mapped     → PortNotMapped
//	a destination that cannot     → NotReady, PortNotMapped
//	another member holds the rule → Lost
//	otherwise                     → Routed
//
// # Who made it so
//
// A fact is often stated again with the same content: by a new leader, or when
// the log raises its floor. Such a statement made nothing so. So the events of
// an answer are the first ones, of those kept, from which on all of their key
// said the same (Since); and Diff calls an event a cause exactly when folding it
// changes the decision.
package explain
