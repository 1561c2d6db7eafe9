package sniff

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

func TestWhetherAConnectionSpeaksHTTP(t *testing.T) {
	cases := map[string]struct {
		words         string
		http, decided bool
	}{
		"nothing":                      {"", false, false},
		"a method":                     {"GET", false, false},
		"half a request line":          {"GET /a", true, false},
		"a request line":               {"GET /a HTTP/1.1\r\n", true, true},
		"an old request line":          {"GET / HTTP/1.0\n", true, true},
		"a method with a hyphen":       {"M-SEARCH * HTTP/1.1\r\n", true, true},
		"half of HTTP/2's preface":     {"PRI * HTTP/2.0\r\n", true, false},
		"HTTP/2's preface":             {preface + "more", true, true},
		"what only begins like it":     {"PRIVATE\r\n", false, true},
		"another preface":              {"PRI * HTTP/3.0\r\n", true, true},
		"a mail server's client":       {"EHLO example.org\r\n", false, true},
		"redis":                        {"*1\r\n$4\r\nPING\r\n", false, true},
		"redis by hand":                {"PING x\r\n", false, true},
		"TLS":                          {"\x16\x03\x01", false, true},
		"a request without a version":  {"GET /a\r\n", true, true},
		"a key that is like a path":    {"get /a\r\n", false, true},
		"tabs for blanks":              {"GET\t/\tHTTP/1.1\r\n", true, true},
		"a bare CR as a line's end":    {"GET / HTTP/1.1\rHost: a\r\n", true, true},
		"a known method":               {"get /", true, false},
		"a method of any name":         {"QUERY /", true, false},
		"any word and a word":          {"GETX a", false, false},
		"memcached":                    {"get key\r\n", false, true},
		"a NUL in the first word":      {"GE\x00T / HTTP/1.1\r\n", false, true},
		"empty lines":                  {"\r\n\n", false, false},
		"a request after empty lines":  {"\r\n\r\nGET / HTTP/1.1\r\n", true, true},
		"a version in lower case":      {"GET / http/1.1\r\n", true, true},
		"another protocol's request":   {"OPTIONS * RTSP/1.0\r\n", false, true},
		"lower case":                   {"get / HTTP/1.1\r\n", true, true},
		"a blank first":                {" / HTTP/1.1\r\n", false, true},
		"a word that does not end":     {strings.Repeat("A", maxMethod+1), false, true},
		"a line that does not end":     {"SAY " + strings.Repeat("a", maxRequestLine), false, true},
		"a long line that may yet end": {"GET " + strings.Repeat("a", 8<<10), true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			http, decided := speaksHTTP([]byte(c.words))
			if decided != c.decided || http != c.http {
				t.Errorf("HTTP %v, decided %v", http, decided)
			}
		})
	}
}

// What Envoy would take for HTTP/1.0 is refused, and no more than that.
func TestVersionsThatAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"GET / HTTP/1.1": "", "GET / HTTP/1.0": "", "GET / HTTP/1.2": "", "\r\nGET / HTTP/1.1 ": "", "GET\t/\tHTTP/1.1": "", "get / http/1.1": "",
		"GET / HTTP/2.0": unknownVersion, "GET / HTTP/0.9": unknownVersion, "GET / HTTP/3.0 ": unknownVersion, "PRI * HTTP/3.0": unknownVersion,
		"GET / HTTP/1": badRequest, "GET / HTTP/1.10": badRequest, "GET / HTTP/": badRequest, "GET /": badRequest, "OPTIONS *": badRequest, "GET / HTTP/2": badRequest,
		preface: "",
	} {
		if got := refusal([]byte(line + "\r\nHost: a\r\n\r\n")); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := refusal([]byte("GET /a-line-that-goes-on")); got != "" {
		t.Errorf("half a line: %q", got)
	}
}

func TestThePROXYHeader(t *testing.T) {
	v4 := proxySignature + "\x21\x11\x00\x0c" + "\x0a\x00\x00\x01\x0a\x00\x00\x02" + "\x30\x39\x1f\x90"
	v6 := proxySignature + "\x21\x21\x00\x24" + strings.Repeat("\x00", 15) + "\x01" + strings.Repeat("\x00", 15) + "\x02" + "\x30\x39\x1f\x90"
	extra := proxySignature + "\x21\x11\x00\x10" + "\x0a\x00\x00\x01\x0a\x00\x00\x02" + "\x30\x39\x1f\x90" + "\x04\x00\x01x"
	for header, want := range map[string]string{v4: "10.0.0.2:8080", v6: "[::2]:8080", extra: "10.0.0.2:8080"} {
		r := strings.NewReader(header + "GET /")
		raw, got, err := readProxyHeader(r)
		if err != nil || got != netip.MustParseAddrPort(want) || string(raw) != header || r.Len() != 5 {
			t.Errorf("%q: %v, %v, %d bytes left", header, got, err, r.Len())
		}
	}
	for name, header := range map[string]string{
		"too short": v4[:20], "another protocol": "GET / HTTP/1.1\r\n\r\n", "too long": proxySignature + "\x21\x11\xff\xff",
		"no addresses": proxySignature + "\x21\x00\x00\x00", "addresses cut off": proxySignature + "\x21\x21\x00\x0c" + strings.Repeat("\x00", 12),
	} {
		if _, got, err := readProxyHeader(bytes.NewReader([]byte(header))); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}
