// Package serve is the delta xDS server: it moves what xds/delta decides over
// gRPC streams, and keeps each stream within its limits.
//
// # Who gets what
//
// A stream begins with a bearer token in the call's metadata ("authorization").
// Sessions turns it into a Session: who the peer is, which names it may ask for,
// and a Source of what it is to have. What a client says about itself in its
// requests (the node) is not read. For the route server Sessions is FromView:
// the peer is a pod, and may ask for the resources of its own workload only;
// any other name ends the stream with PermissionDenied.
//
// # Waking, not feeding
//
// A stream holds no queue. It waits for its client or for the Source's channel,
// then compares what the client has with what there is now. A slow client skips
// versions. While the Source knows nothing (the table is not whole yet) streams
// are held and nothing is sent.
//
// FromView translates a workload once per version of its rules, whatever the
// number of its pods: a table in which other workloads changed costs a stream
// one comparison of two hashes. What no stream uses is dropped.
//
// # Limits
//
// First request within 5 s; requests of at most 1 MiB; 4 streams per identity; a
// response that cannot be written within 10 s ends the stream; ServerOptions has
// those of the connection. All state of a stream goes with it.
//
// # What users owe
//
// Register the Server on a grpc.Server made with ServerOptions. Acks tells at any
// moment which client has acknowledged what, and with FromView the newest position
// of the table that these routes are those of. That is remembered for the last
// versions of each workload that has a stream here: of a client that comes with
// an older one it is not known until it has accepted another.
package serve
