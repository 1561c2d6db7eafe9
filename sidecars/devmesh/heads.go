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
	// maxHeadBytes is what Envoy takes as Config.HeadBytes at most.
	maxHeadBytes = 8192 << 10
	// minFieldKiB and maxFieldKiB are what Envoy takes as the bound of one field of
	// HTTP/2, as it is on the wire; the first is its default.
	minFieldKiB, maxFieldKiB = 64, 256
	// maxWindow is the largest window that HTTP/2 has (RFC 9113, section 6.9.1).
	maxWindow = 1<<31 - 1
)

func (b *builder) headKiB() *wrapperspb.UInt32Value { return wrapperspb.UInt32(b.HeadBytes >> 10) }

// toServers holds for connections to the application and to sandboxes.
func (b *builder) toServers(idle, used time.Duration) *corev3.HttpProtocolOptions {
	o := commonHTTP(idle, used)
	o.MaxResponseHeadersKb = b.headKiB()
	return o
}

// http2 takes fields as long as Envoy can, where it does not take whole heads.
func (b *builder) http2() *corev3.Http2ProtocolOptions {
	o := http2()
	if kib := min(b.HeadBytes>>10, maxFieldKiB); kib >= minFieldKiB {
		o.MaxHeaderFieldSizeKb = wrapperspb.UInt32(kib)
	}
	return o
}

// http2ToServers lets no stream wait for others on its connection, which many clients
// share: those that read nothing would fill any window of the connection. What a stream may
// hold bounds streamWindow, and all together the overload manager.
func (b *builder) http2ToServers() *corev3.Http2ProtocolOptions {
	o := b.http2()
	o.InitialConnectionWindowSize = wrapperspb.UInt32(maxWindow)
	return o
}
