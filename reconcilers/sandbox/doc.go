// Package sandbox turns a SignadotSandbox into its parts: a Resource for each managed resource, a
// ForkedWorkload for each workload that patches name, with all its patches in the order of the list, a
// SignadotExternalWorkload and a VirtualWorkload for each of those, and one RoutingConfig for the routing
// key, with all members and their middlewares.
//
//	gather    other owners of the key, and existing parts, from the cache     reconciler.go
//	Provide   the desired Resources                                           decide_resources.go  pure
//	provide   write them, since their readiness is known only then            act.go
//	Decide    the other desired parts                                         decide.go, decide_members.go  pure
//	act       write the differences                                           act.go
//	Conclude  the status, from that of the parts                              decide_conclude.go, decide_status.go  pure
//	expire    delete at the end of a lifetime                                 lifetime.go
//	remove    delete the parts, stage by stage                                remove.go
//
// # The routing key
//
// It is spec.id. Of several sandboxes and route groups with one key, the owner of the existing
// RoutingConfig has it, else the oldest (package routingkey); the others create nothing and report
// RoutingKeyTaken, and one of them takes over when the holder is deleted. The name of the RoutingConfig is
// the key, which is always a valid name; its owner reference shows whether it belongs to the sandbox. A
// sandbox that loses its key loses its members and keeps its Resources, since re-creating them would lose
// their data.
//
// # Members
//
// Each member comes from one field of the spec and is in the namespace of its baseline. An external
// workload without a baseline, or with a baseline that is no real object, is created in the operator's
// namespace, unless the baseline names one. A baseline or a name can occur once in a sandbox; further
// occurrences are left out, and Accepted reports them. That includes virtual workloads: one beside a fork
// of the same baseline would route requests of the fork to the baseline.
//
// customization.images is accepted and ignored, as are clusterName, sdRevision and
// disableSandboxTrafficManager.
//
// # Resources
//
// No fork starts before every Resource is Ready=True for its current generation. Forks refer to Resources
// by names (resourceTemplateData), which are known before; so every member is created and declared at
// once, and a new fork is put on hold with crdv1.AnnotationWaitsFor: its requests fail instead of reaching
// the baseline. Releasing it takes one write (tools/adr/0017). A running fork is neither put on hold nor
// changed: it still follows its baseline and is re-created when it is deleted. So a resource that is added
// later stops nothing. Members without a fork do not wait. A resource that has failed permanently (its
// Ready has the reason ResourceFailed, or its phase is failed) makes the sandbox Ready=False with that
// reason, on which clients stop waiting.
//
// A Resource that the spec no longer lists is deleted once no fork refers to it and each fork runs only
// pods of its current spec. The controller of Resources adds a finalizer to each before its first effect,
// and removes it after its delete steps have run; the sandbox waits for that. If no controller runs the
// steps, package unsupported reports it.
//
// # Ready
//
// A sandbox is ready when every resource is provisioned, every member is available and every proxy that
// can receive its key has the rules for it (package routing). So Ready becomes True after the last
// acknowledgement of the last change, and False while a new generation of the spec changes the rules. A
// baseline pod with a sidecar that is not ready does not make it False, and neither does a new pod:
// neither gets requests before its sidecar has all rules. A pod without a sidecar does. The RoutingConfig
// names members from their creation, ready or not, so that a member that is unready for a moment does not
// change the routing. Conditions carry observedGeneration, which kubectl wait compares.
//
// # Bad input
//
// A part that cannot be created is reported in a condition and does not affect the other parts. A workload
// of a kind that cannot be forked is left out; WorkloadsReady and RoutingReady report it too, since its
// requests reach the baseline. A patch that does not apply is reported by the ForkedWorkload and repeated
// here, with the paths of the sandbox's own spec. A sandbox without workloads is valid, and Ready states
// the effect.
//
// # Deletion
//
// A sandbox with a lifetime (crdv1.AnnotationTTL) is deleted at its end, with the resource version that
// was read as a precondition: a sandbox with an extended lifetime is kept.
//
// The RoutingConfig is deleted first, so that the key is withdrawn while its members still serve; then the
// members, once route groups no longer route to them (remove.go); then the Resources, after their delete
// workflows have run; then the finalizer is removed. The condition Ready states what it waits for. A part
// belongs to the sandbox if the UID of its controller reference is the sandbox's: parts of a previous
// sandbox of the same name are not adopted and must be deleted first.
//
// # Names
//
// Parts are named with crdv1.ObjectName: a ForkedWorkload by the sandbox and its target (with its kind,
// unless that is Deployment), the others by the sandbox and their name in it. No code parses these names.
package sandbox
