// Package engine decides about workflows: graphs of units of work, each a pod that is run to
// completion. It is pure: it takes the observed state, and returns what to do and what to record.
//
//	Check   the problems of the graphs of an object                  graph.go
//	Plan    which units begin, which pods to delete, the progress    plan.go
//	        the transitions of one unit from phase to phase          unit.go
//	Named   the status of a unit once its pod has a name; Began,     unit.go
//	        once it is created; Refused and Renamed, if it is not
//	Picture the graph as people see it                               picture.go
//
// # The phases of a unit
//
//	Pending ──► Starting ──► Running ──► Succeeded
//	   │ ▲         │            │ ├────► Failed      the script's fault, or out of time
//	   │ └─────────┼────────────┘ └────► Lost        its script had begun, and how it ended is unknown
//	   │           ├──► Failed                       out of time: its pod was refused all the time
//	   └───────────┴──► Skipped                      there is nothing for it to do, or all ends
//
// In Starting the name of the next pod is recorded, and the pod does not exist yet: it is being
// created, was refused, or its name was taken. The time of an attempt counts from the first answer
// of the API server: the creation of the pod, or a refusal, which is then the reason of Failed.
// Running goes back to Pending, for another attempt, where a pod ended through no fault of the
// script before that had begun, or where the unit states that its script may run again.
//
// # Once
//
// A unit that has succeeded never runs again. The status is the record: a pod may run the
// script of an attempt only while the status has the operator's grant for it, which the IO
// context server verifies. So a pod that a manager created before it crashed, or one of a former
// leader, runs no script.
package engine
