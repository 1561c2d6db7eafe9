// Package sandbox turns what a user asks for, a SignadotSandbox, into its parts:
// a Resource for each managed resource, a ForkedWorkload for each workload that
// patches name, with all its patches in the order of the list, a
// SignadotExternalWorkload and a VirtualWorkload for each of those, and one
// RoutingConfig for the routing key, with all members and their middlewares.
//
//	gather    who else has the key, and the parts that exist, from the cache  gather.go
//	Provide   which Resources there should be                                 decide_resources.go  pure
//	provide   write them, since whether one is ready is known only then       act.go
//	Decide    which other parts there should be                               decide.go, decide_members.go  pure
//	act       write what is not so already                                    act.go
//	Conclude  the status, from that of the parts                              decide_conclude.go, decide_status.go  pure
//	expire    the end of a lifetime                                           lifetime.go
//	remove    the end, stage by stage                                         remove.go
//
// # The routing key
//
// It is spec.id. Of several sandboxes and route groups with one key the one whose
// RoutingConfig is there has it, else the oldest (package routingkey); the others make
// nothing and say RoutingKeyTaken, and one of them takes over when the holder is gone.
// The name of the RoutingConfig is the key, which is always a legal name; that it is
// ours is told by its owner. A sandbox that loses its key loses its members, and keeps
// its Resources: making those again would lose what is in them.
//
// # Members
//
// Each is wanted by one field of the spec, and is beside its baseline. An external
// workload without a baseline, or with one that stands for no real object, belongs to
// no namespace and is made in that of the operator, unless the baseline names one. In
// a sandbox a baseline is taken once and a name given once; what comes second is left
// out, and Accepted says so. That counts for virtual workloads as well: beside a fork
// of the same baseline one would lead its requests to the baseline.
//
// customization.images is accepted and ignored, as are clusterName, sdRevision and
// disableSandboxTrafficManager.
//
// # Resources
//
// No fork starts before every Resource is Ready=True in the form that is asked for.
// What forks are told of Resources (resourceTemplateData) are names, which are known
// before; so every member is made and declared at once, and a new fork is held with
// crdv1.AnnotationWaitsFor: its requests fail, and do not reach the baseline. To let it
// go is one write (tools/adr/0017). A fork that runs already is neither held nor
// changed: it follows its baseline and is made again when somebody deletes it, as
// before. So a resource that is added later stops nothing. Members without a fork wait
// for nothing. A resource that failed for good (its Ready has the reason
// ResourceFailed, or its phase says so) makes the sandbox Ready=False with that
// reason, on which clients stop to wait.
//
// A resource that is not named any more goes when no fork was told of it and each runs
// in its present form only. The controller of Resources puts a finalizer on each before
// its first effect, and takes it off once its delete steps have run; the sandbox waits for
// it. Where no steps run, that of package unsupported says so.
//
// # Ready
//
// A sandbox is ready when every resource is made, every member is available and every
// proxy that can see its key knows the rules that lead there (package routing): so
// Ready comes after the last acknowledgement of the last change, and goes while a new
// generation of the spec changes what proxies have to know. A pod of a baseline whose
// sidecar is not ready takes it back no more than one that is added: neither gets
// requests before its sidecar has all rules. One without a sidecar does. The
// RoutingConfig names members from when they are made, ready or not: a member that is
// unready for a moment takes no routing away. Conditions carry observedGeneration,
// which kubectl wait compares.
//
// # Bad input
//
// What cannot be done becomes a condition and leaves the other parts alone: a
// workload of a kind that cannot be forked is left out, of which WorkloadsReady and
// RoutingReady tell as well, since its requests reach the baseline; a patch that does
// not apply is found by the ForkedWorkload and repeated here, with the paths of the
// sandbox's own spec. A sandbox that names no workloads is right, and Ready says what it
// comes to.
//
// # The end
//
// A sandbox with a lifetime (crdv1.AnnotationTTL) is deleted when that is over, in the form in
// which it was looked at: one that got a longer life meanwhile stays.
//
// The RoutingConfig goes first, so that the key is withdrawn while its members
// still serve; then the members, once the route groups have let go of them (release.go);
// then the Resources, whose delete workflows run before they are gone; then the finalizer. What it waits for is in the condition Ready. A
// part is ours when the UID of its controller is that of the sandbox: what a former
// life of the same name made is not adopted, and has to go first.
//
// # Names
//
// Parts are named with crdv1.ObjectName: a ForkedWorkload by the sandbox and its
// target (with its kind, unless that is Deployment), the others by the sandbox and
// their name in it. Nothing reads them.
package sandbox
