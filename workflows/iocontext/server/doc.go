// Package server is the IO context server: it gives the pod of a unit what its script needs,
// and keeps what the script gives (decision record 0043).
//
// Who calls shows the token of a pod, made for iocontext.Audience. A pod has what the status of
// a SignadotObjectLifecycleMethods says: that it runs a unit of it, in phase Running, by its
// UID. It gets the inputs of this unit and may leave its outputs, and nothing else. The object
// is read from the API server for each request, so that a pod of an earlier attempt, or one that
// only has the same name, is refused from the moment on in which the status is another.
//
// No value is in a log, in an error or in a path.
package server
