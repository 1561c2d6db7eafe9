package devmesh

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The limits of the proxy. They are Envoy's advice for an edge, because every
// caller in the cluster reaches the listener, except where that would change
// what a baseline answers.
const (
	// connectTimeout is how long a connection to the application or a sandbox
	// may take to be made.
	connectTimeout = 5 * time.Second
	// forkTries is how often the sidecar tries to connect to a fork for one request, with
	// Envoy's pauses of 25 to 250 ms, and forkConnectTimeout how long each try may take. While
	// one of a fork's pods ends, its Service still sends connections there for some hundred milliseconds.
	forkTries          = 5
	forkConnectTimeout = 1250 * time.Millisecond
	// headersTimeout is how long a client may take to send a request's headers.
	headersTimeout = time.Minute
	// sniffTimeout is how long a new connection may be silent before it is passed to the
	// program that waits for either side to speak. Protocols in which the server speaks first
	// are delayed by it on ports that are not known to be plain; for an HTTP client that is
	// slower than that, every request takes one more hop. See the package's document for
	// measurements.
	sniffTimeout = 20 * time.Millisecond
	// idleToApp is how long an unused connection to the application is kept: less than the 5 s
	// after which common servers (Node, uvicorn) close them, or a request could be sent into
	// a closing connection.
	//
	// It also bounds how long connections to a destination are kept after its
	// route has changed: requests go to the new one from the first that is routed
	// by the new table, those under way end where they are, and a connection that
	// is left over is closed when it has been idle for so long.
	idleToApp = 4 * time.Second
	// idleConnection is how long an idle connection of a client is kept: applications keep
	// connections for minutes or for ever, and bare TCP for ever. While memory is short it shrinks,
	// to idleLeast (overload.go).
	idleConnection = 24 * time.Hour
	idleLeast      = 5 * time.Second
	// idleHolds is what such a connection holds, in bytes: 24 to 30 KiB were measured.
	idleHolds = 32 << 10
	// forkConnection is how long a connection to a sandbox is used for new requests. A fork
	// that restarts is left by then: its Service selects other pods as soon as it is being
	// terminated, but connections stay where they are, and a request that is sent into one that
	// the fork closes in the same moment is lost.
	forkConnection = time.Second
	// forgetDestination is how often destinations that were not used since are removed. It is
	// not less than idleToApp, so that only idleness ends a connection.
	forgetDestination = 5 * time.Second
	// keepaliveIdle and keepaliveInterval detect a lost peer on connections that may be silent
	// for days.
	keepaliveIdle     = 60
	keepaliveInterval = 15
	keepaliveProbes   = 4

	// maxStreams is what gRPC's servers let a connection have: without bound. See
	// tools/adr/0012.
	maxStreams = 1<<31 - 1
	// maxRequests is what Envoy passes on at once to one of its clusters: without bound.
	maxRequests = 1 << 20
	// finalNotice is how long a client of HTTP/2 has, from the notice that the connection ends,
	// for requests that it has already sent: more than a round trip.
	finalNotice        = 250 * time.Millisecond
	delayedClose       = time.Second
	keepaliveXDS       = 10 * time.Second
	keepaliveXDSAnswer = 5 * time.Second
)

// Buffers and windows, chosen in comparison with a stock Envoy, which has 1 MiB, 16 MiB and 24
// MiB. Throughput relative to its own, one body at a time over a cable, on two processors with
// other load, so that each number may be a tenth off (make bench-streams):
//
//	buffer   h1 down  h1 up  h2 down  h2 up
//	32 KiB   0.57     0.74   0.20     0.27   with windows of 64 KiB and 1 MiB
//	64 KiB   0.70     0.72   0.79     0.83   here and below with 1 MiB and 24 MiB
//	128 KiB  0.88     0.92   0.95     0.88
//	192 KiB  0.94     0.86   0.85     1.07
//	256 KiB  1.01     0.93   1.09     0.96
const (
	// connectionBuffer is how much is read from a connection at once, and how much can wait to
	// be written before reading from the other side stops. A stream of HTTP/1 that is not read
	// takes it twice, and only its size bounds that: Envoy ends no such stream when memory is
	// short. With 160 KiB 1,000 of them took 403 to 542 MiB, more than half of the container's
	// memory, and honest connections were closed.
	connectionBuffer = 128 << 10
	// lateBuffer is that of the hop through the program in the pod, which has connections with
	// a connectionBuffer at each end already.
	lateBuffer = 32 << 10
	// streamWindow is how much a peer can send on one stream before it needs an update of the
	// window, and how much can wait to be sent on one: on a busy machine a round trip of 1 ms
	// takes 5, and it passes 400 MB/s then. Streams that fill it are ended when memory is short
	// (overload.go).
	streamWindow = 2 << 20
	// connectionWindow lets 16 streams of a connection stand still before the others
	// on it have to.
	connectionWindow = 32 << 20
)

// http1 lets through what the application would have understood by itself:
// HTTP/1.0 and trailers. (Envoy passes over an offer to speak HTTP/2, Upgrade:
// h2c, by itself.)
func http1() *corev3.Http1ProtocolOptions {
	return &corev3.Http1ProtocolOptions{
		AcceptHttp_10:         true,
		DefaultHostForHttp_10: "localhost",
		EnableTrailers:        true,
		AllowCustomMethods:    true,
		IgnoreHttp_11Upgrade:  passedOver(),
	}
}

func http2() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{
		MaxConcurrentStreams:        wrapperspb.UInt32(maxStreams),
		InitialStreamWindowSize:     wrapperspb.UInt32(streamWindow),
		InitialConnectionWindowSize: wrapperspb.UInt32(connectionWindow),
		AllowConnect:                true,
		// A request that is none ends its own stream and no other.
		OverrideStreamErrorOnInvalidHttpMessage: wrapperspb.Bool(true),
	}
}

// commonHTTP holds for both sides. Header names with underscores are let
// through: applications in the wild use them, and refusing them would break
// their baselines. No routing decision reads such a name.
//
// An idle connection is kept for so long, and any is used for so long; 0 is for ever.
func commonHTTP(idle, used time.Duration) *corev3.HttpProtocolOptions {
	o := &corev3.HttpProtocolOptions{
		IdleTimeout:                  durationpb.New(idle), // without any Envoy closes after an hour
		MaxHeadersCount:              wrapperspb.UInt32(maxHeaders),
		HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_ALLOW,
	}
	if used > 0 {
		o.MaxConnectionDuration = durationpb.New(used)
	}
	return o
}

func keepalive() *corev3.TcpKeepalive {
	return &corev3.TcpKeepalive{
		KeepaliveTime:     wrapperspb.UInt32(keepaliveIdle),
		KeepaliveInterval: wrapperspb.UInt32(keepaliveInterval),
		KeepaliveProbes:   wrapperspb.UInt32(keepaliveProbes),
	}
}

func buffer(size uint32) *wrapperspb.UInt32Value { return wrapperspb.UInt32(size) }
