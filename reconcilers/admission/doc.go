// Package admission asks whether the author of an object of ours has the rights that the
// operator will use for it. The operator may create workloads in every namespace and has
// them started with what its patches name: without that question, whoever may write a
// sandbox has the operator's rights.
//
//	Review   answers one AdmissionReview of the validating webhook        review.go
//	gather   the baselines that the object names, from the cache          gather.go
//	Decide   what the author needs for it                                 decide.go          pure
//	  reads    which Secrets, ConfigMaps and claims its patches read        decide_reads.go
//	  units    where its units run, and what they read and give            decide_units.go
//	  deletion whether a change has the object deleted                     decide_deletion.go
//	  change   whether a request changes what counts                       decide_change.go
//	  author   the user to ask about: the sender, or one that it names     decide_author.go
//	  kept     the rights behind values that a change keeps                decide_kept.go, kept.go
//	  bounds   how many members, patches and pods it may ask for            decide_bounds.go
//	ask      SubjectAccessReviews                                         ask.go
//	Refusal  what the author lacks, in words                              decide_refusal.go  pure
//
// # What an author needs
//
// For each workload that a sandbox, a ForkedWorkload, a SignadotExternalWorkload or a
// VirtualWorkload stands for: to create workloads of its kind in its namespace. For what
// patches have a fork read and its baseline does not: to get it. For a route group or a
// RoutingConfig: to get the sandboxes or members that it names.
//
// For each unit of a sandbox's resources, a Resource or a SignadotObjectLifecycleMethods: to
// create pods where it runs, and to get what its pod template names there: nothing stands
// behind such a pod as the baseline does behind a fork. For what a resource gives: to create
// Secrets in the namespaces that get it.
//
// A change of the specification of a sandbox, a Resource or a SignadotObjectLifecycleMethods needs
// the rights of all units that gave the values it keeps, removed units included: later units read
// these values (decision record 0050).
//
// First is asked whether the author may have the workloads, and only then is worked out what
// patches read: that takes time, and says something of the baseline.
//
// Where patches do not apply to the baseline as it is, or there is none, they may apply
// later, to something else: nobody can say what they read then. The author then has to be
// allowed to get all Secrets, ConfigMaps and claims of the namespace.
//
// # Who is not asked
//
// The operator's own service account, by its whole name: what it writes follows from an
// object whose author was asked. Whatever leaves the spec as it was, so that finalizers,
// status and deletion never need the manager: the webhook's matchConditions let that pass,
// and so does Review. The annotations that Annotations returns count like the spec.
//
// Package record writes the author into crdv1.AnnotationAuthor before; Review refuses a
// change without a recorded author.
//
// What the API server has let pass is not asked about again: it has asked (failurePolicy
// Fail), and a change of what is asked for is a change of the spec. So an object from
// before there was a webhook goes on.
package admission
