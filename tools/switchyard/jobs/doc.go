// Package jobs contains the commands for jobs, which run scripts in pods of the cluster, and for the runner groups that
// have these pods: job, artifact and jobrunnergroup. They need a kubeconfig or a control plane.
//
//	job submit, get, list, cancel, logs          commands.go
//	the output of a job, followed to its end     attach.go
//	artifact get                                 artifact.go
//	jobrunnergroup apply, get, list, delete      groups.go
//	output as text                               show.go
//	the place with the jobs                      site.go
//	    a cluster: objects, tickets, runners     cluster.go, runner.go
//	    a control plane                          plane.go
//
// Both places have jobs in their published form (workflows/jobs/published).
package jobs
