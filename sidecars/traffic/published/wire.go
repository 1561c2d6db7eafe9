package published

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// statusSwitching is the status after which a connection has another protocol.
const statusSwitching = 101

// Request returns a request in wire format.
func Request(x *trafficv1.Exchange) []byte {
	m := x.GetRequest()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", word(m.GetMethod()), word(m.GetTarget()))
	writeHeader(&b, "Host", m.GetAuthority())
	writeMessage(&b, m, x.GetResponse().GetStatus() == statusSwitching, "host")
	return b.Bytes()
}

// Response returns the response in wire format; nil if there is none.
func Response(x *trafficv1.Exchange) []byte {
	m := x.GetResponse()
	if m == nil {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d \r\n", m.GetStatus())
	writeMessage(&b, m, m.GetStatus() == statusSwitching)
	return b.Bytes()
}

// writeMessage writes headers, body and trailers. raw: the body is the further bytes of the connection. without are headers,
// in lower case, that are written already.
func writeMessage(b *bytes.Buffer, m *trafficv1.Message, raw bool, without ...string) {
	body, headers, chunked := m.GetBody(), m.GetHeaders(), !raw && len(m.GetTrailers()) > 0
	sized := !raw && !chunked && (Cut(m) || len(body) > 0 && Value(headers, "content-length") == "")
	if sized || chunked {
		without = append(without, "content-length", "transfer-encoding")
	}
	for _, h := range headers {
		if !slices.ContainsFunc(without, func(name string) bool { return strings.EqualFold(name, h.GetName()) }) {
			writeHeader(b, h.GetName(), h.GetValue())
		}
	}
	switch {
	case sized:
		writeHeader(b, "Content-Length", fmt.Sprint(len(body)))
	case chunked:
		writeHeader(b, "Transfer-Encoding", "chunked")
	}
	b.WriteString("\r\n")
	if !chunked {
		b.Write(body)
		return
	}
	if len(body) > 0 {
		fmt.Fprintf(b, "%x\r\n%s\r\n", len(body), body)
	}
	b.WriteString("0\r\n")
	for _, h := range m.GetTrailers() {
		writeHeader(b, h.GetName(), h.GetValue())
	}
	b.WriteString("\r\n")
}

// writeHeader writes a header in one line, whatever it contains.
func writeHeader(b *bytes.Buffer, name, value string) {
	b.WriteString(strings.ReplaceAll(word(name), ":", "%3A") + ": " + strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, value) + "\r\n")
}

// word returns a text without what ends a word in the head of a message.
func word(text string) string {
	if strings.IndexFunc(text, ends) < 0 {
		return text
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; ends(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func ends(r rune) bool { return r <= ' ' || r == 0x7f }
