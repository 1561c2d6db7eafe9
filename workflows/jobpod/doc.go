// Package jobpod creates the pods of a JobRunnerGroup, which run its jobs, and the Service that addresses
// them. It is pure: values in, values out.
//
//	Accept   the problem of a group, before a pod is created     accept.go
//	Pod      a pod of the group                                  pod.go
//	Version  the hash of what its pods are created from          pod.go
//	Service  the Service of its pods                             service.go
//
// # The pod
//
// The init container job-executor-init copies the executor into the volume signadot-job. The main container,
// "main" or else the first of the template, has the image of the group and runs the executor instead of its
// command; its other settings are those of the template. It cannot write the folder of the executor. The container job-executor-proxy serves the executor
// to other programs. It alone has the token, and the volume with output, results and artifacts. Packages layout
// and socket of workflows/jobexec have the paths.
//
// Where a pod may have the capability NET_ADMIN (reconcilers/jobrunnergroup asks the API server), the init container
// job-executor-redirect redirects the connections that the other containers open to job-executor-proxy.
//
// The containers restart: an execution of a job names the start of the main container that it can begin in.
//
// # Restrictions
//
// The operator's containers are accepted by Pod Security restricted, except job-executor-redirect. A template is subject to Pod Security
// baseline and to what the author may read, as that of a unit is (package execunit). It cannot share the
// process namespace: scripts would see the processes of job-executor-proxy.
package jobpod
