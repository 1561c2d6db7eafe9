// Package job runs Jobs in the pods of their runner groups. It reconciles runner groups: one call decides
// about all jobs of a group, so each group has one scheduler.
//
//	gather    the jobs and pods of a group, routing contexts, the runners' answers   gather.go
//	Decide    the next step of each job, and which pod gets which job                decide.go    pure
//	          the status                                                             conclude.go  pure
//	act       write statuses, labels and finalizers, delete finished jobs            act.go
//	follower  the calls to the runner of one execution                               follow.go, reach.go
//	released  questions for results that were read                                   released.go
//	uploads   what jobs have left, in the bucket of the operator                     uploads.go, package upload
//	memory    open calls, turns and recent writes                                    memory.go
//
// Package workflows/jobs has the states of a job, the order of the queue and what a runner gets; its doc.go
// describes why a script begins at most once.
//
// # Memory
//
// What this package remembers can be lost: the calls that are open, the runners' last answers, the turns
// of submitters, and its own writes that the cache does not have yet. Everything else is in the statuses of the
// Jobs and the labels of the pods. A new leader asks the runners again: Run is idempotent.
//
// # Writes
//
// A short job on a pod that is reused costs five writes after its creation: the finalizer, the label of the
// pod, the status with the fence, the status with the outcome, and the removal of the label. A job that
// waits, or that runs longer than two seconds, costs one more, and one that gets the pod from the job before
// one less. `switchyard job submit` creates Jobs with the finalizer, which saves that write.
package job
