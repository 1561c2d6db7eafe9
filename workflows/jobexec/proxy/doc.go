// Package proxy is the container job-executor-proxy of a runner's pod. It serves protos/jobexec/v1.Executor over TLS,
// and has the token, the keys, and the store with output, results and artifacts, in a volume that the main container
// does not mount. Scripts are run by the executor in the main container (workflows/jobexec/socket).
//
//	store      the files of executions: the request, the output, the result, the artifacts
//	runner     which execution runs; begins, stops and releases executions
//	collect    copies the output, the ending and the artifacts of an execution from the executor into the store
//	service    the gRPC service; access checks tickets
//	enrol      certificate and keys, from the manager
//
// The container can be killed at any moment. Output is acknowledged to the executor when it is in a file; a result is
// synced to the disk before it is reported; a restarted process continues the executions in the store. When the
// executor has begun an execution and cannot report its ending, the ending is stored as not known (ExecutorLost).
package proxy
