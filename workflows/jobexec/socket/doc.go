// Package socket is the protocol between the two processes of a runner's pod: the executor in the main
// container (workflows/jobexec/executor), which runs scripts, and the container job-executor-proxy, which stores
// their output and results. It has the paths of the volume that both mount, the messages and the client.
//
// It is HTTP/1.1 over the Unix socket Path, with these requests; bodies are JSON except where noted:
//
//	GET    /v1/executor                      Executor
//	PUT    /v1/executions/JOB/N              Request → Status; begins it, at most once
//	GET    /v1/executions/JOB/N?after=V      Status; waits for a version that is not V, for 20 s at most
//	POST   /v1/executions/JOB/N/stop         Status; returns at once
//	GET    /v1/executions/JOB/N/stdout?offset=B   the bytes from B on, raw: at most MaxChunk; also stderr
//	DELETE /v1/executions/JOB/N              forgets an execution that has ended
//	GET    /v1/file?path=P                   a file of the main container, raw, with its size as Content-Length
//
// An error is a Refusal. Each of its reasons is final: the same request fails again.
//
// Output. A request for output with offset B acknowledges that all bytes before B are stored: the executor drops
// them. It keeps at most MaxUnacknowledged bytes of each stream, and the script waits when they are not read. So a
// proxy that was restarted continues at the size of its file, without loss or duplicates. The response has header
// HeaderOffset, the offset of its first byte, and HeaderEnd if the stream ends with this part. It waits for the first byte for
// 20 s, and has no bytes after that. An offset that lies before the acknowledged bytes gets the first ones that exist,
// with their offset.
//
// Order. A proxy begins an execution, reads both streams and waits for the status at the same time, until both
// streams have ended and Status.Phase is Terminated. Then it reads files, and deletes the execution; before that no
// other one begins. All processes of the script have ended when the status is Terminated, unless it has
// Ending.Leftover.
//
// At most once. Before a script starts, the executor records the execution in BegunDir, and an execution with a
// record never begins. An executor that was restarted (Executor.Instance differs) refuses requests for an execution
// that had begun before with reason Lost: its outcome is unknown.
//
// Trust. Everything in the main container can write the volume, and talk to the executor or replace it. The client
// takes nothing that it receives as more than the word of the container: it bounds the size of each answer.
package socket
