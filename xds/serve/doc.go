// Package serve is the delta xDS server: it sends the responses of xds/delta over gRPC streams,
// and enforces the limits of each stream.
//
// # Authorization
//
// A stream begins with a bearer token in the call's metadata ("authorization"). Sessions turns
// it into a Session: the peer, the names that it can ask for, and a Source of its resources.
// The client's own description of itself (the node) is ignored. For the route server Sessions
// is FromView: the peer is a pod, and can ask for the resources of its own workload only; any
// other name ends the stream with PermissionDenied.
//
// # No queues
//
// A stream has no queue. It waits for its client or for the Source's channel, then compares the
// client's versions with the current ones. A slow client skips versions. While the Source has
// no resources (the table is not whole yet) streams stay open and nothing is sent.
//
// FromView offers a workload's routes whole and in parts (xds/translate). One goroutine follows
// the view while there are streams: it computes the changes once per workload, whatever the
// number of its pods, and wakes only the streams of those workloads; a change of the custom
// headers affects all. The routes of workloads without a stream are dropped. Responses share
// the marshaled form of their resources.
//
// # Pacing
//
// The first change is sent at once; changes within Config.Pace of a response are combined in
// the next one of that stream. At most Config.Writers responses are built and written at a
// time. Streams take turns in the order in which they have something to send, and send the
// newest version when their turn comes. A client that does not read loses its turn after 50 ms.
//
// # Limits
//
// First request within 5 s; requests of at most 512 KiB; 10,000 names of a type on a stream; a
// response that cannot be written within 10 s ends the stream. For each identity: 4 streams,
// 20,000 names and 8 MiB to remember, 20 streams opened in a row and after that one in 2 s. A
// refused version is sent once on a stream, so a client that reconnects to refuse it again
// costs the routes of its workload every 2 s. ServerOptions returns the limits of the
// connection. All state of a stream ends with it.
//
// # Use
//
// Register the Server on a grpc.Server created with ServerOptions. Acks returns the versions
// that each client has acknowledged and, with FromView, the newest position of the table that
// these routes correspond to. Positions are remembered for the last versions of each workload
// that has a stream here: for a client that connects with an older version the position is
// unknown until it accepts another.
package serve
