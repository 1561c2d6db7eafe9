// Package server is the IO context server: it sends the pod of a unit the inputs of its script,
// and stores the outputs of the script (decision record 0043).
//
// Callers present the token of a pod, of audience iocontext.Audience. A pod is authorized by the
// status of a SignadotObjectLifecycleMethods, which lists it by its UID as the pod of a unit in
// phase Running. It gets the inputs of this unit and may store its outputs, and nothing else. The
// object is read from the API server for each request, so that a pod of an earlier attempt, or
// one that only has the same name, is refused from the moment on in which the status changes.
//
// No value is contained in a log, an error or a path.
package server
