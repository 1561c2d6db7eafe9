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
// FromView offers a workload's routes whole and in parts (xds/translate). One
// goroutine follows the view while there are streams: it works out what changed, for
// each workload once whatever the number of its pods, and wakes the streams of those
// workloads alone; a change of the custom headers concerns them all. What no stream
// uses is dropped. Responses share the written form of their resources: nothing is
// written anew for each client.
//
// # How much at a time
//
// The first change is sent at once; what changes within Config.Pace of a response
// goes together into the next one of that stream. At most Config.Writers responses are
// made and written at a time, and streams take turns in the order in which they have
// something to send; what is sent is the newest when it is a stream's turn. A client
// that does not read gives its turn back after 50 ms.
//
// # Limits
//
// First request within 5 s; requests of at most 512 KiB; 10,000 names of a type on a
// stream; a response that cannot be written within 10 s ends the stream. For each
// identity: 4 streams, 20,000 names and 8 MiB to remember, 20 streams opened in a row
// and after that one in 2 s. What a client refuses is sent once on a stream, so one
// that comes back to refuse it again costs the routes of its workload every 2 s.
// ServerOptions has the limits of the connection. All state of a stream goes with it.
//
// # What users owe
//
// Register the Server on a grpc.Server made with ServerOptions. Acks tells at any
// moment which client has acknowledged what, and with FromView the newest position
// of the table that these routes are those of. That is remembered for the last
// versions of each workload that has a stream here: of a client that comes with
// an older one it is not known until it has accepted another.
package serve
