// Package api is tunnel-api: what workstations ask about the cluster, over gRPC
// (protos/tunnel/v1/api.proto).
//
//	Main        the listeners, and what runs                        server.go
//	caller      who calls, and how much he may have                 caller.go
//	services    which Services there are, as a log of changes       services.go
//	watches     that log, for a caller and from a position          watch.go
//	sandboxes   sandboxes with workloads at a workstation           sandboxes.go
//	outputs     what resources give, read as who asks               outputs.go
//	issue       certificates and credentials of minutes             issue.go
//
// # Who is answered
//
// A caller shows a token, as metadata "authorization: Bearer …": one that the API server of the
// cluster takes, or one of audience tunnel-proxy (package access). It counts over TLS alone, and
// over plain connections from the same host: whatever else comes plain has been read by whoever
// could, so it is refused with the advice to revoke it. Only GetOperatorInfo, health and
// reflection, where it is switched on, need none: streams of these are bounded, and a connection
// has few streams until a call over it has shown a valid token. The addresses of the tunnel proxies
// and of loopback identify no caller (package callers).
//
// Services are told of those namespaces in which the caller may list Services, sandboxes if he
// may update them. Both are asked again every half minute while a stream is open. Outputs of
// resources are read from their Secrets with the caller's own token, so this program has no
// right to Secrets, and the audit of the API server has the caller's name.
//
// # Positions
//
// The position of a watch of Services is that of one process: an epoch, a number that grows with
// each change, and what the caller may see. Who comes with the position of another process, or
// one from before what is remembered, or may see other namespaces than then, is told
// OUT_OF_RANGE, and begins without a position.
package api
