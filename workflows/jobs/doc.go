// Package jobs decides about Jobs. It is pure: values in, values out.
//
//	Accept   the problems of a specification                       accept.go
//	Pick     which waiting job gets which idle pod                 pick.go
//	Next     the next step of a job, and its state                 next.go
//	         the end of an execution, with or without an outcome   end.go
//	Request  what the runner of a pod gets                         request.go
//
// # At most once
//
// A job is given to a pod in three steps: the pod gets the label crdv1.AssignedJobLabel; the status of the
// Job records the fence (crdv1.JobExecution) with begun: true; the runner of the pod gets the request. Each
// of the first two is a compare-and-swap, and the request is sent only after the second is acknowledged. The
// runner of another pod refuses the request, and a pod records an execution in its volume before it begins and never
// begins it again, also after its containers have restarted. So a script
// begins once for each value of execution.count, whatever fails between.
//
// A job that has not begun can be given to another pod. One that has, only after its pod has answered Stop
// with the proof that the script never began, and never will. An outcome that cannot be proved ends the
// job as failed and retryable, or begins another execution if the job allows it (crdv1.AnnotationRetries).
package jobs
