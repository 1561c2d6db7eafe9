package devmesh

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Bounds of the heads of requests and answers.
const (
	// maxHeaders is how many lines a head may have. Each takes Envoy some 300 bytes,
	// however short it is, so that a head takes at most 5 MiB beside its own length.
	maxHeaders = 16384
	// headKiB is how long the head of a request or of an answer may be, its first line
	// included: 1 MiB, as common servers have it. A longer request is answered with 431.
	headKiB = 1024
	// fieldKiB bounds one field of HTTP/2, as it is on the wire: as long as Envoy can.
	fieldKiB = 256
	// maxWindow is the largest window that HTTP/2 has (RFC 9113, section 6.9.1).
	maxWindow = 1<<31 - 1
)

// toServers holds for connections to the application and to sandboxes.
func toServers(idle, used time.Duration) *corev3.HttpProtocolOptions {
	o := commonHTTP(idle, used)
	o.MaxResponseHeadersKb = wrapperspb.UInt32(headKiB)
	return o
}

// http2ToClients takes long fields, since Envoy does not take whole heads for a bound there.
func http2ToClients() *corev3.Http2ProtocolOptions {
	o := http2()
	o.MaxHeaderFieldSizeKb = wrapperspb.UInt32(fieldKiB)
	return o
}

// http2ToServers lets no stream wait for others on its connection, which many clients
// share: those that read nothing would fill any window of the connection. What a stream may
// hold bounds streamWindow, and all together the overload manager.
func http2ToServers() *corev3.Http2ProtocolOptions {
	o := http2ToClients()
	o.InitialConnectionWindowSize = wrapperspb.UInt32(maxWindow)
	return o
}
