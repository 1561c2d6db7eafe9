// Package sandbox turns what a user asks for, a SignadotSandbox, into its parts:
// one ForkedWorkload for each workload that patches name, with all its patches
// in the order of the list, and one RoutingConfig for the routing key.
//
//	gather    who else has the key, and the parts that exist, from the cache  gather.go
//	Decide    which parts there should be                                     decide.go  pure
//	act       write what is not so already                                    act.go
//	Conclude  the status, from that of the parts                              decide_conclude.go  pure
//
// # The routing key
//
// It is spec.id. Of several sandboxes with one id the oldest (then the first by
// name) has the key; the others make nothing and say RoutingKeyTaken, and one
// of them takes over when the holder is gone. The name of the RoutingConfig is
// the key, which is always a legal name; that it is ours is told by its owner.
//
// # Ready
//
// A sandbox is ready when every fork is available and every proxy that can see its
// key knows the rules that lead there (routingconfig.Known): so Ready comes after the
// last acknowledgement of the last change, and goes while a new generation of the
// spec changes what proxies have to know. A pod of a baseline whose sidecar is not
// ready takes it back no more than one that is added: neither gets requests before its
// sidecar has all rules. One without a sidecar does. Conditions carry observedGeneration, which
// kubectl wait compares.
//
// # Bad input
//
// What cannot be done becomes a condition and leaves the other parts alone: a
// workload of a kind that cannot be forked is left out, a patch that does not
// apply is found by the ForkedWorkload and repeated here. Members that this
// version does not know how to make (external and virtual workloads, managed
// resources) are named in a condition with the reason NotSupportedYet; since
// forks may need what resources give, none is made while a resource is wanted.
//
// # The end
//
// The RoutingConfig goes first, so that the key is withdrawn while its forks
// still serve; then the ForkedWorkloads; then the finalizer. A part is ours
// when the UID of its controller is that of the sandbox.
package sandbox
