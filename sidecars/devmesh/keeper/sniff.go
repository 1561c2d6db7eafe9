package keeper

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
)

// The PROXY protocol, version 2.
const (
	proxySignature = "\r\n\r\n\x00\r\nQUIT\n"
	proxyCommand   = 0x21 // version 2, PROXY
	tcp4, tcp6     = 0x11, 0x21
	fixedPart      = 16
	maxProxyHeader = fixedPart + 512
)

// readProxyHeader reads a PROXY header and nothing after it; it gives the
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

// speaksHTTP tells from the first bytes of a connection whether it speaks HTTP:
// HTTP/2's preface, or a whole request line. Not decided: more is needed.
func speaksHTTP(words []byte) (http, decided bool) {
	if n := min(len(words), len(preface)); n > 0 && string(words[:n]) == preface[:n] {
		return true, n == len(preface)
	}
	method, rest, spaced := bytes.Cut(words, []byte{' '})
	if len(method) > maxMethod || bytes.ContainsFunc(method, notUpper) || spaced && len(method) == 0 {
		return false, true
	}
	if !spaced {
		return false, false
	}
	line, _, ended := bytes.Cut(rest, []byte{'\n'})
	if !ended {
		return false, len(words) > maxRequestLine
	}
	return bytes.Contains(line, []byte(" HTTP/1.")), true
}

// notUpper: methods that anybody uses are upper-case words, some with a hyphen.
func notUpper(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' }
