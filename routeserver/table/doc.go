// Package table folds the facts of the routing log into the routing table:
// which sandbox serves which baseline for which routing key, and which request
// headers carry such keys.
//
// A Table is a value. Apply gives a new one and leaves the old one as it was;
// both share all that did not change, so a version costs little to make and to
// keep, and Diff of two versions costs what changed between them.
//
// How the fold works. It keeps the newest RoutingDeclared of each routing key
// and the newest WorkloadObserved of each sandboxed workload, and joins them: a
// rule exists exactly when a key names a member and that member was observed to
// represent a baseline, or does not exist and the declaration states which one it
// represented. The latter is never ready (Rule.Absent), and a member that exists holds
// a baseline before it. What one fact changes is found again through two
// indexes: a key knows its members, a member knows the keys that name it. The rules
// that a key had are those of the baselines that its members stood in for.
//
// What holds, and is tested against a version that works everything out anew:
//
//   - The order in which facts arrive makes no difference, nor do duplicates:
//     each key of the log remembers the sequence of its newest fact and passes
//     over older ones. Withdrawals are remembered in the same way.
//   - So replaying only the newest fact of each key gives the same table as
//     following the log from its beginning.
//   - Nothing but the facts decides: not the time in a fact, not the clock.
//   - Facts that say nothing usable are passed over: of an unknown type (a newer
//     writer), without data, or with an empty routing key, which would match
//     requests that carry none. A fact whose subject is clear but whose value is
//     unusable, such as an observed workload without a baseline, counts as the
//     newest one of its key and makes no rule.
//
// Beside the rules a table holds which headers carry routing keys (KeyHeaders), as
// the newest KeyHeadersDeclared says. They are no part of any rule, nor of HashOf.
//
// Of a VirtualWorkload there is a rule like of any other member, so that it can win or
// lose a baseline, and everybody can say who holds the key; but it leads nowhere:
// Rule.Kept (decision record 0015).
//
// A table belongs to one epoch of the log, that of its first fact, and passes
// over facts of any other. For a new epoch begin with Table{}.
//
// How it is laid out. All rules lie in one map, found by baseline and routing key
// together, and those of one baseline lie near each other (lookup.go). A lookup
// touches one slot among a hundred thousand, in which lies the routing key itself,
// and the Place of the baseline, which fifty others share. Everything that rules
// have in common is there once: what was said of their key, what was seen of
// their member, the place. Texts are copied into one piece of memory for each of
// these, so that a table keeps no fact alive. Decision record 0006 has the numbers.
//
// What users owe: a *Rule is shared between versions and readers. Never change
// one.
package table
