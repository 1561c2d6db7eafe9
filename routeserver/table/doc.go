// Package table folds the facts of the routing log into the routing table: which sandbox serves
// which baseline for which routing key, and which request headers carry such keys.
//
// A Table is a value. Apply returns a new one and leaves the old one unchanged; both share all that
// did not change, so a version costs little to make and to keep, and Diff of two versions costs as
// much as changed between them.
//
// How the fold works. It keeps the newest RoutingDeclared of each routing key and the newest
// WorkloadObserved of each sandboxed workload, and joins them: a rule exists exactly when a key
// names a member and that member was observed to represent a baseline, or does not exist and the
// declaration contains the one it represented. The latter is never ready (Rule.Absent), and an
// existing member wins a baseline over it. The effects of a fact are found through two indexes: a
// key lists its members, a member lists the keys that name it. The rules that a key had are those
// of the baselines that its members represented.
//
// Guarantees, tested against an implementation that computes every table from scratch:
//
//   - The order in which facts arrive makes no difference, nor do duplicates:
//     each key of the log remembers the sequence of its newest fact and ignores
//     older ones. Withdrawals are remembered in the same way.
//   - So replaying only the newest fact of each key produces the same table as
//     following the log from its beginning.
//   - Only the facts decide: not the time in a fact, not the clock.
//   - Unusable facts are ignored: of an unknown type (a newer writer), without
//     data, or with an empty routing key, which would match requests that carry
//     none. A fact with a clear subject but an unusable value, such as an observed
//     workload without a baseline, counts as the newest one of its key and makes
//     no rule.
//
// Besides the rules, a table contains which headers carry routing keys (KeyHeaders), from the
// newest KeyHeadersDeclared. They are not part of any rule, nor of HashOf.
//
// A VirtualWorkload has a rule like any other member, so that it can win or lose a baseline and
// every reader can name the owner of the key; but its requests stay at the baseline: Rule.Kept (decision record
// 0015).
//
// A table belongs to one epoch of the log, that of its first fact, and ignores facts of any other.
// For a new epoch begin with Table{}.
//
// Memory layout. All rules are in one map, indexed by baseline and routing key together, and those
// of one baseline are near each other (lookup.go). A lookup reads one slot among a hundred
// thousand, which contains the routing key itself, and the Place of the baseline, which about fifty
// others share. Everything that rules have in common is stored once: the declaration of their key,
// the observation of their member, the place. Texts are copied into one allocation for each of
// these, so that a table keeps no fact alive. Decision record 0006 has the numbers.
//
// A *Rule is shared between versions and readers: callers must not modify it.
package table
