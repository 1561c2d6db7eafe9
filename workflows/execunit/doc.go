// Package execunit creates the pod of a work unit, and derives the progress of the unit from its
// pod. It is pure: values in, values out.
//
//	Accept     the problem of a unit, before anything of it runs       accept.go, template.go, inputs.go
//	Power      what a pod may do only where the configuration allows   power.go, bounds.go
//	Pod        the pod of one attempt                                  pod.go
//	Observe    the progress of the unit, and the remedy if it is stuck observe.go, waiting.go, ended.go
//
// # The pod
//
// Three containers use the volume signadot-execunit-io, which is in memory: the manager of
// inputs, the last init container, fills it; the main container, "main" or else the first, runs
// the wrapper in it; and the manager of outputs, a plain container because it has to outlive the
// main one, sends the outputs that the wrapper has left there. Only the two managers have the
// token for the IO context server. The pod's definition contains no values. If there is a script
// it is run instead of the template's command and arguments.
//
// # Restrictions
//
// Such a pod has no baseline that it is derived from, as a fork has, so it is subject to Pod
// Security baseline. Only the managers have the token for the IO context server, and the template
// can project no other token. The API server asks the author of the unit (reconcilers/admission)
// about what the template reads of Secrets, ConfigMaps and claims, and about the right to create
// pods in its namespace, which includes its service accounts; where it does not ask, these are
// powers. A token is mounted only where the template names an account or sets
// automountServiceAccountToken. Units in the operator's namespace use none of its accounts.
//
// # A script runs at most once in an attempt
//
// So no container may be started again: neither by its restart policy nor by the rules of
// another one.
//
// # Not checked
//
// The validation rules of the API server for each field of a pod: a template that breaks one is
// refused when the pod is created, with the API server's message.
package execunit
