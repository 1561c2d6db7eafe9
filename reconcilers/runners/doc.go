// Package runners is the service Runners of the manager (protos/jobexec/v1), on a listener of its own, on every
// replica: it gives runners of jobs their certificates, and users the tickets with which runners admit them.
//
//	Keeper  the keys, in a Secret of the operator's namespace   keys.go
//	Enrol   certificates of runners                             enrol.go
//	Ticket  tickets of readers                                  ticket.go
//	Ticket  those of readers of captures (Tickets)              traffic.go
//	Main    the listener and its limits                         server.go
//
// # Runners
//
// A runner is a pod that shows its token, if the status of its runner group has its UID with a signature of the manager, which
// writes both there for the pods that it has created. Labels and owners of a pod prove nothing, nor does what other users write
// into the status, and other pods get the same answer whatever group they name. The API server is read for each enrolment, and no cache.
//
// # Readers
//
// A user with the right to get pods/log in the namespace of the job's runner group, to read this job. Some accounts of
// the operator's (Config.Accounts), to read any job and release its output, and to read any capture: they check
// their users themselves. A ticket is for one job in the pod of its present execution.
//
// Record 0077 (tools/adr) has the reasons.
package runners
