// Package jobrunnergroup keeps the pods of JobRunnerGroups, which run jobs, and the Service that addresses
// them.
//
//	gather   the pods and the jobs of a group, and whether its
//	         pods redirect connections                            gather.go, redirection.go
//	Decide   which pods to create, drain and delete               decide.go, decide_ended.go   pure
//	Conclude the status                                           decide_conclude.go           pure
//	act      drain, delete, create, record                        act.go, redirection.go
//	Watch    maps pods and jobs to their group                    gather.go
//
// Package workflows/jobpod has the pods.
//
// # Runners
//
// The status lists the pods that the operator created: the UID of a pod is recorded after its creation, in the
// write of the status before which the group had the version that was read. Any other pod with the group as its
// owner is deleted, so no pod is adopted. A pod that is not recorded gets neither a job nor a certificate.
//
// # The life of a pod
//
// A pod is a replica until it is draining (crdv1.AnnotationDraining) and has no job. Draining pods get no
// job: the mark is a compare-and-swap, as is the label of a job, so that one of the two sees the other. A
// draining pod is deleted once it has no job and no results that are to be read. Results are kept for a limited
// time, and the pods that keep them are limited in number; a loss is recorded on the pod and as an
// Event.
//
// The Job controller drains the pods of groups that do not reuse them, and pods with processes that could not be
// ended. This package drains surplus pods, those of a previous template, failed ones, and all of a group that
// is being deleted, of which it waits for running jobs: the Job controller stops them.
//
// # Templates
//
// Pods of a new template are created beside the others, one fourth of the group at a time. As many others are
// drained as there are ready pods beyond the wanted number: idle ones first, then those with jobs. Where a quota
// or missing space on nodes prevents additional pods, one pod less is enough. The group keeps its pods while its
// new template is not accepted.
package jobrunnergroup
