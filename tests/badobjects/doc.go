// Package badobjects puts custom resources that are wrong in every way through the
// real controllers, and checks that none of them panics, fails for good, or leaves
// an object without a word about it.
//
// The world is small and whole: baselines, two sandboxes, members of every kind, a
// route group, resources, with status (testdata/world.yaml). Kinds that nothing acts on
// have one of their own (testdata/unsupported.yaml). In it one object is
// damaged, each part of it in turn left out, nulled or of another type, or by the
// fuzzer; then every controller looks at every object, in memory: what an API server
// would refuse is tried as well, since old versions may have stored it.
package badobjects
