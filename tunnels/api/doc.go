// Package api is tunnel-api: it answers questions of workstations about the cluster, over gRPC
// (protos/tunnel/v1/api.proto).
//
//	Main        the listeners and background tasks                  server.go
//	caller      authentication, and bounds for each user            caller.go
//	services    the Services of the cluster, as a log of changes    services.go
//	watches     that log, for a caller and from a position          watch.go
//	sandboxes   sandboxes with workloads at a workstation           sandboxes.go
//	outputs     outputs of resources, read as the caller            outputs.go
//	issue       certificates and credentials of minutes             issue.go
//
// # Authentication
//
// A caller presents a token, as metadata "authorization: Bearer …": one that the API server of
// the cluster accepts, or one of audience tunnel-proxy (package access). It counts over TLS only,
// and over plain connections from the same host. A token over any other plain connection may have
// been read on the way, so it is refused with the advice to revoke it. Only GetOperatorInfo,
// health and reflection, where it is switched on, need no token: streams of these are bounded,
// and a connection has few streams until a call over it has presented a valid token. The
// addresses of the tunnel proxies and of loopback identify no caller (package callers).
//
// A caller receives the Services of the namespaces in which it may list Services, and the
// sandboxes if it may update them. Both rights are checked again every half minute while a stream
// is open. Outputs of resources are read from their Secrets with the caller's own token, so this
// program has no right to Secrets, and the audit log of the API server has the caller's name.
//
// # Positions
//
// The position of a watch of Services is valid for one process: an epoch, a number that grows
// with each change, and the namespaces that the caller may see. The position of another process,
// one from before the oldest change in memory, or one with other namespaces is answered with
// OUT_OF_RANGE; the client then begins without a position.
package api
