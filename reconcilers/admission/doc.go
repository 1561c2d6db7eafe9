// Package admission checks that the author of an object has the rights that the operator will use for
// it. The operator can create workloads in every namespace, with anything that patches name: without
// this check, users who can write a sandbox would have the operator's rights.
//
//	Review   answers one AdmissionReview of the validating webhook        review.go
//	gather   the baselines that the object names, from the cache          review.go
//	captured the baselines of the forks that a TrafficCapture is of       review.go
//	Decide   the rights that the author needs                             decide.go          pure
//	  reads    Secrets, ConfigMaps and claims that its patches read         decide_reads.go
//	  units    where its units run, and their inputs and outputs           decide_units.go
//	  deletion whether a change deletes the object                         decide_deletion.go
//	  change   whether a request changes a relevant field                  decide_change.go
//	  author   the user to check: the sender, or one that it names         decide_author.go
//	  kept     the rights behind values that a change keeps                decide_units.go, kept.go
//	  captures the rights to fork for a TrafficCapture                     decide_captures.go
//	  bounds   how many members, patches and pods it may ask for            decide_bounds.go
//	ask      SubjectAccessReviews                                         ask.go
//	Refusal  the message about missing rights                             decide_author.go   pure
//
// # Required rights
//
// For each baseline of a sandbox, a ForkedWorkload, a SignadotExternalWorkload or a VirtualWorkload:
// create workloads of its kind in its namespace. For each object that patches make a fork read and that
// its baseline does not: get it. For a route group or a RoutingConfig: get the sandboxes or members
// that it names. For a middleware of a route group: create workloads of that kind in its namespace, in all namespaces if it names none.
//
// For a JobRunnerGroup, and each unit of a sandbox's resources, a Resource or a
// SignadotObjectLifecycleMethods: create pods in its namespace, and get the objects that its pod template
// names there, since it has no baseline that reads them already. For the outputs of a resource: create
// Secrets in the namespaces that get them. For a Job: create pods/exec in the namespace of its runner group,
// and get the sandbox or route group of its routing context. For a TrafficCapture: create workloads, as for
// the forks that it is of.
//
// A change of the specification of a sandbox, a Resource or a SignadotObjectLifecycleMethods needs the
// rights of all units that gave the values it keeps, removed units included: later units read these
// values (decision record 0050).
//
// The rights to the workloads are checked first, and the objects that patches read are computed only
// after that: it takes time, and the result reveals parts of the baseline.
//
// If patches do not apply to the present baseline, or it does not exist, they may apply later to
// another one, and may then read any object. So the author needs the rights to get all Secrets,
// ConfigMaps and claims of the namespace.
//
// # Exemptions
//
// The operator's own service account, by its full name: its writes follow from an object with a checked
// author. Requests that leave the spec unchanged, so that finalizers, status and deletion never need
// the manager: the webhook's matchConditions allow them, and so does Review. The annotations that
// Annotations returns count like the spec.
//
// Package record writes the author into crdv1.AnnotationAuthor before; Review denies a change without a
// recorded author.
//
// Admitted objects are not checked again: that was done on admission (failurePolicy Fail), and a
// relevant change is a change of the spec. So an object from before the webhook was installed keeps
// working.
package admission
