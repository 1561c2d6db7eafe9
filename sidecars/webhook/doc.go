// Package webhook serves the decisions of package inject to the API server, as
// the mutating webhook sidecar-injector.signadot.com, and keeps its own
// certificate (package authority).
//
//	/mutate-v1-pod             pods; opt-in by the pod's annotation, or by its namespace's
//	                           label where NamespaceLabels returns it
//	/mutate-v1-pod/namespace   pods of namespaces that the API server has selected
//	                           by the label sidecar.signadot.com/inject
//	.../confined               either of them, of namespaces that the API server
//	                           has found to enforce a pod security level
//
// Each path is for an entry of its own in the webhook configuration, with a namespaceSelector
// for the labels: the API server then matches them, and the manager needs no right to read
// namespaces. Where pod security is enforced the answer is a reason and never a sidecar, since
// the pod would not be admitted.
//
// # Failures
//
// Every pod is allowed, whatever happens: after an internal error the answer is allowed,
// without a patch, with a warning and an audit annotation that contain the error. The
// configuration's failurePolicy Ignore and timeout of 2 s have the same effect when the webhook
// cannot answer at all. A handler makes no API call and takes no lock that a reconciler takes;
// it is a function of the pod and of the Config.
//
// # Limits
//
// Requests are limited to 4 MiB each and 64 MiB together, with deadlines on all of them; HTTP/2
// is off. A client that reaches the port can only have a pod of its own patched: nothing is
// stored or looked up.
//
// # Other reviews
//
// Config.Reviews are answered on the same listener, with the same limits and certificate: the
// manager has its validating webhook there (reconcilers/admission), to which the above does not
// apply: it refuses, and it calls the API server.
//
// A manager adds the Injector with mgr.Add; it runs on every replica, leader or
// not. Readiness is Injector.Ready.
package webhook
