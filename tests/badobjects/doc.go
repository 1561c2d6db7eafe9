// Package badobjects runs the real controllers on custom resources that are invalid in every way,
// and checks that none of them panics, fails permanently, or leaves an object without a condition.
//
// The world is small and complete: baselines, two sandboxes, members of every kind, a route group,
// resources, with status (testdata/world.yaml). Kinds without a controller have a separate one
// (testdata/unsupported.yaml). In it one object is damaged, each part of it in turn removed, nulled
// or of another type, or by the fuzzer; then every controller reconciles every object, in memory:
// objects that an API server would reject are tested as well, since old versions may have stored
// them.
package badobjects
