package sniff

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"regexp"
)

// The PROXY protocol, version 2.
const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyCommand   = 0x21 // version 2, PROXY
	tcp4, tcp6     = 0x11, 0x21
	fixedPart      = 16
	maxProxyHeader = fixedPart + 512
)

// readProxyHeader reads a PROXY header and nothing after it; it returns the
// header's bytes and the address that the connection was made to.
func readProxyHeader(r io.Reader) ([]byte, netip.AddrPort, error) {
	header := make([]byte, fixedPart, maxProxyHeader)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, netip.AddrPort{}, fmt.Errorf("read the PROXY header: %w", err)
	}
	length := int(binary.BigEndian.Uint16(header[14:]))
	if string(header[:12]) != proxySignature || header[12] != proxyCommand || fixedPart+length > maxProxyHeader {
		return nil, netip.AddrPort{}, fmt.Errorf("not a PROXY header: % x", header)
	}
	header = header[:fixedPart+length]
	if _, err := io.ReadFull(r, header[fixedPart:]); err != nil {
		return nil, netip.AddrPort{}, fmt.Errorf("read the PROXY header: %w", err)
	}
	// Source address, destination address, source port, destination port.
	body, size := header[fixedPart:], 0
	switch header[13] {
	case tcp4:
		size = 4
	case tcp6:
		size = 16
	}
	if size == 0 || length < 2*size+4 {
		return nil, netip.AddrPort{}, fmt.Errorf("a PROXY header without TCP addresses: % x", header)
	}
	address, _ := netip.AddrFromSlice(body[size : 2*size])
	return header, netip.AddrPortFrom(address.Unmap(), binary.BigEndian.Uint16(body[2*size+2:])), nil
}

// Bounds of a request line.
const (
	maxMethod      = 32
	maxRequestLine = 64 << 10
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

var (
	// requestLine is in every line that any server takes for a request's, and in
	// some that only a careless one does: Envoy refuses those, where otherwise
	// the application could have taken the next request with it, unrouted.
	requestLine = regexp.MustCompile(`(?i)[ \t]HTTP/[0-9]`)
	// likelyRequest matches the beginning of a request with high probability: a known method,
	// or any with the beginning of a target.
	likelyRequest = regexp.MustCompile(`(?i)^((GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|TRACE|CONNECT|PRI)[ \t]|[^ \t]+[ \t]+(/|\*|https?:))`)
	// versionless is a request line of before HTTP/1.0. Some servers read more
	// requests after it: those would not be routed.
	versionless = regexp.MustCompile(`^(GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|TRACE|CONNECT|PRI)[ \t]+[/*][^ \t]*[ \t\r]*$`)
	// notMethod is what no method has in it: it is a token of RFC 9110.
	notMethod = regexp.MustCompile("[^A-Za-z0-9!#$%&'*+.^_`|~-]")
)

// strangeVersion ends a request line with a version other than 1.0, 1.1 and similar ones, which
// no server of HTTP/1 accepts: Envoy would take it for 1.0. The version may be the preface's,
// in a line that is not the preface.
var strangeVersion = regexp.MustCompile(`(?i)[ \t]HTTP/([0-9.]*)[ \t]*$`)

// refusal returns the answer to a request line that HTTP/1 does not have; empty when
// it may be one.
func refusal(words []byte) string {
	line, _, ended := bytes.Cut(bytes.TrimLeft(words, "\r\n"), []byte{'\n'})
	if !ended {
		return "" // it goes on
	}
	if versionless.Match(line) {
		return badRequest
	}
	said := strangeVersion.FindSubmatch(bytes.TrimRight(line, "\r"))
	if said == nil || likeOne.Match(said[1]) || bytes.HasPrefix(words, []byte(preface)) {
		return ""
	}
	if aVersion.Match(said[1]) {
		return unknownVersion
	}
	return badRequest
}

const (
	badRequest     = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	unknownVersion = "HTTP/1.1 505 HTTP Version Not Supported\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)

var (
	likeOne  = regexp.MustCompile(`^1\.[0-9]$`)
	aVersion = regexp.MustCompile(`^[0-9]\.[0-9]$`)
)

// speaksHTTP returns from the first bytes of a connection whether it speaks HTTP: HTTP/2's
// preface, or a whole request line, after any empty ones. If it is not decided, more bytes are
// needed; those so far may still be a request, and likely are if http is true.
func speaksHTTP(words []byte) (http, decided bool) {
	words = bytes.TrimLeft(words, "\r\n")
	if n := min(len(words), len(preface)); n > 0 && string(words[:n]) == preface[:n] {
		return true, n == len(preface)
	}
	line, _, ended := bytes.Cut(words, []byte{'\n'})
	method, spaced := line, false
	if i := bytes.IndexAny(line, " \t\r"); i >= 0 {
		method, spaced = line[:i], true
	}
	switch {
	case len(method) > maxMethod || notMethod.Match(method) || spaced && len(method) == 0:
		return false, true
	case ended:
		return requestLine.Match(line) || versionless.Match(line), true
	}
	return likelyRequest.Match(line), len(line) > maxRequestLine
}
