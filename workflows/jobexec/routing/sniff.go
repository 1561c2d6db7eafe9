package routing

import (
	"bytes"
	"strings"
)

// protocol is that of the first bytes of a client.
type protocol int

const (
	unknown protocol = iota // more bytes are needed
	other
	http1
	http2
)

// preface begins a connection of HTTP/2.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// maxMethod is the maximum length of a method.
const maxMethod = 20

// sniff returns the protocol of a connection that begins with some bytes; full reports that no more can be read, and the
// protocol is then not unknown.
func sniff(first []byte, full bool) protocol {
	if n := min(len(first), len(preface)); string(first[:n]) == preface[:n] {
		switch {
		case n == len(preface):
			return http2
		case !full:
			return unknown
		}
		return other
	}
	method, rest, complete := bytes.Cut(first, []byte(" "))
	if len(method) > maxMethod || strings.Trim(string(method), "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" || string(method) == "CONNECT" {
		return other
	}
	line, _, ended := bytes.Cut(rest, []byte("\n"))
	begins := len(rest) == 0 || strings.ContainsRune("/*h", rune(rest[0]))
	switch {
	case !complete && full, complete && !begins:
		return other
	case ended && !strings.Contains(string(line), " HTTP/1."):
		return other
	case ended, full:
		return http1
	}
	return unknown
}

// absolute reports whether a request, by its first bytes, has an absolute URL.
func absolute(first []byte) bool {
	_, target, _ := bytes.Cut(first, []byte(" "))
	return bytes.HasPrefix(target, []byte("h"))
}

// settingsBytes is the length of the header of a frame of HTTP/2.
const settingsBytes = 9

// settings reports whether bytes are, or can become, the settings with which a server of HTTP/2 begins.
func settings(first []byte) bool {
	for i, b := range first[:min(len(first), settingsBytes)] {
		switch {
		case i == 3 && b != 4, (i == 0 || i > 3) && b != 0:
			return false
		}
	}
	return true
}
