// Package reverse has what reverse proxies on httputil.ReverseProxy need in common.
package reverse

import (
	"net/http"
	"strings"
)

// StatusAsTrailer adds a trailer to a gRPC response that consists only of a status; it is a ModifyResponse and returns
// nil. Such a status arrives as headers that end the stream, and would be sent as headers without the end of the stream:
// a client would then wait for a status that never comes.
func StatusAsTrailer(r *http.Response) error {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	isGRPC := kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
	if r.ProtoMajor != 2 || !isGRPC || r.ContentLength != 0 || r.Header.Get("Grpc-Status") == "" || len(r.Trailer) > 0 {
		return nil
	}
	r.Trailer = http.Header{}
	for name, values := range r.Header {
		switch name {
		case "Content-Type", "Content-Length", "Date":
		default:
			r.Trailer[name] = values
			delete(r.Header, name)
		}
	}
	r.Header.Del("Content-Length")
	return nil
}
