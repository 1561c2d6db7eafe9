// Package webhook serves the decisions of package inject to the API server, as
// the mutating webhook sidecar-injector.signadot.com, and keeps its own
// certificate (package certs).
//
//	/mutate-v1-pod             pods; the pod's annotation asks, or its namespace's
//	                           label where NamespaceLabels can tell
//	/mutate-v1-pod/namespace   pods of namespaces that the API server has selected
//	                           by the label sidecar.signadot.com/inject
//	.../confined               either of them, of namespaces that the API server
//	                           has found to enforce a pod security level
//
// Each path is for an entry of its own in the webhook configuration, with a
// namespaceSelector for the labels: the API server then does the looking, and the
// manager needs no right to read namespaces. Where pod security is enforced the
// answer is a reason and never a sidecar, since the pod would not be let in.
//
// # It never stands in the way
//
// Every pod is allowed, whatever happens: a fault of ours is answered with
// allowed, no patch, a warning and an audit annotation that say what it was. The
// configuration's failurePolicy Ignore and timeout of 2 s do the same where we
// cannot answer at all. A handler makes no API call and holds no lock that a
// reconciler holds; it is a function of the pod and of the Config.
//
// # It takes nothing on trust
//
// Requests are capped at 4 MiB each and 64 MiB together, with deadlines on all
// of it; HTTP/2 is off. Whoever reaches the port can only have a pod of their
// own patched: nothing is stored and nothing is looked up.
//
// # What else it serves
//
// Config.Reviews are answered on the same listener, with the same caps and certificate:
// the manager has its validating webhook there (reconcilers/admission), of which none of the
// above is true: it refuses, and it asks the API server.
//
// A manager adds the Injector with mgr.Add; it runs on every replica, leader or
// not. Readiness is Injector.Ready.
package webhook
