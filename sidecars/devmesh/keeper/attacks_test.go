package keeper_test

// The corpus of ambiguous requests. To add one, add it here: the judge in smuggling_test.go
// only needs the targets that may be answered, in their order.
//
// Each is sent twice: with {outer} as the lines of a request without a routing key and {inner}
// of one with, and the other way round. It is followed on the connection by a whole request for
// /end.

// attack is what one client sends on one connection of HTTP/1.
type attack struct {
	name string
	// bytes are sent as they are, but for {outer} and {inner}.
	bytes string
	// targets may be answered, in this order, each at most once. One that is
	// missing here must not be seen by any backend.
	targets string
}

// inner is a request to be smuggled.
const inner = "GET /inner HTTP/1.1\r\n{inner}\r\n"

// attacks are grouped by the kind of ambiguity.
func attacks() []attack {
	var all []attack
	for _, group := range [][]attack{bothLengths(), transferEncodings(), contentLengths(), chunks(), lineEnds(), headerNames(), targets(), hops(), upgrades(), plainBodies()} {
		all = append(all, group...)
	}
	return all
}

// bothLengths have a Content-Length and a Transfer-Encoding.
func bothLengths() []attack {
	return []attack{
		{"CL.TE", "POST /outer HTTP/1.1\r\n{outer}Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "/outer /inner"},
		{"TE.CL", "POST /outer HTTP/1.1\r\n{outer}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n60\r\n" + inner + "\r\n0\r\n\r\n", "/outer"},
		{"CL.TE with the order changed", "POST /outer HTTP/1.1\r\n{outer}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + inner, "/outer /inner"},
		{"CL 0 and TE", "POST /outer HTTP/1.1\r\n{outer}Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "/outer /inner"},
		{"both on a GET", "GET /outer HTTP/1.1\r\n{outer}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "/outer /inner"},
		{"CL on a GET", "GET /outer HTTP/1.1\r\n{outer}Content-Length: 0\r\n\r\n" + inner, "/outer /inner"},
		{"TE in HTTP/1.0", "POST /outer HTTP/1.0\r\n{outer}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "/outer /inner"},
		{"both in HTTP/1.0", "POST /outer HTTP/1.0\r\n{outer}Connection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, "/outer /inner"},
	}
}

// transferEncodings obscure the Transfer-Encoding, beside a Content-Length that
// covers what the chunks would end before.
func transferEncodings() []attack {
	var all []attack
	for name, line := range map[string]string{
		"a blank before the colon":      "Transfer-Encoding : chunked",
		"a tab before the colon":        "Transfer-Encoding\t: chunked",
		"a tab before the value":        "Transfer-Encoding:\tchunked",
		"a vertical tab":                "Transfer-Encoding:\x0bchunked",
		"a byte before the name":        "\x00Transfer-Encoding: chunked",
		"an unknown coding":             "Transfer-Encoding: xchunked",
		"an unknown coding after":       "Transfer-Encoding: chunked, identity",
		"an unknown coding before":      "Transfer-Encoding: cow, chunked",
		"gzip before":                   "Transfer-Encoding: gzip, chunked",
		"twice in a line":               "Transfer-Encoding: chunked, chunked",
		"twice, the second unknown":     "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow",
		"twice, the first unknown":      "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
		"identity":                      "Transfer-Encoding: identity",
		"quoted":                        "Transfer-Encoding: \"chunked\"",
		"single quotes":                 "Transfer-Encoding: 'chunked'",
		"with a parameter":              "Transfer-Encoding: chunked;q=1",
		"upper case":                    "TRANSFER-ENCODING: CHUNKED",
		"empty":                         "Transfer-Encoding:",
		"a comma first":                 "Transfer-Encoding: ,chunked",
		"a folded value":                "Transfer-Encoding:\r\n chunked",
		"a folded line before":          "X: y\r\n Transfer-Encoding: chunked",
		"a bare LF before":              "X: y\nTransfer-Encoding: chunked",
		"a bare CR before":              "X: y\rTransfer-Encoding: chunked",
		"an underscore":                 "Transfer_Encoding: chunked",
		"no colon":                      "Transfer-Encoding chunked",
		"a NUL in the value":            "Transfer-Encoding: chunked\x00",
		"bytes that are not ASCII":      "Transfer-Encoding: chunked\xff",
		"a space that is not ASCII":     "Transfer-Encoding:\xc2\xa0chunked",
		"named as a hop's own":          "Connection: transfer-encoding\r\nTransfer-Encoding: chunked",
		"Content-Length named so":       "Connection: content-length\r\nTransfer-Encoding: chunked",
		"a TE header in its place":      "TE: chunked",
		"a header with a similar name":  "X-Transfer-Encoding: chunked",
		"a name with a line in it":      "X: y\r\nTransfer-\r\nEncoding: chunked",
		"a blank at the line's begin":   " Transfer-Encoding: chunked",
		"the first line of the headers": "",
	} {
		if line != "" {
			line += "\r\n"
		}
		// Read by its length, the body is all of it; read as chunks, it ends early.
		body := "0\r\n\r\n" + "GET /inner HTTP/1.1\r\nX: y"
		all = append(all,
			attack{"TE.TE, " + name + ", chunks end early", "POST /outer HTTP/1.1\r\n{outer}" + line + "Content-Length: 31\r\n\r\n" + body + "\r\n{inner}\r\n", "/outer /inner"},
			attack{"TE.TE, " + name + ", without a length", "POST /outer HTTP/1.1\r\n{outer}" + line + "\r\n0\r\n\r\n" + inner, "/outer /inner"},
		)
	}
	return all
}

// contentLengths are conflicting, or numbers that are none.
func contentLengths() []attack {
	var all []attack
	for name, lines := range map[string]string{
		"two different":             "Content-Length: 0\r\nContent-Length: 5\r\n",
		"two different, the first":  "Content-Length: 5\r\nContent-Length: 0\r\n",
		"two that are the same":     "Content-Length: 5\r\nContent-Length: 5\r\n",
		"a list of two":             "Content-Length: 0, 5\r\n",
		"a list of the same":        "Content-Length: 5, 5\r\n",
		"a plus sign":               "Content-Length: +5\r\n",
		"a minus sign":              "Content-Length: -5\r\n",
		"minus zero":                "Content-Length: -0\r\n",
		"hexadecimal":               "Content-Length: 0x5\r\n",
		"octal":                     "Content-Length: 005\r\n",
		"an underscore in it":       "Content-Length: 0_5\r\n",
		"a blank in it":             "Content-Length: 0 5\r\n",
		"letters after it":          "Content-Length: 5a\r\n",
		"a fraction":                "Content-Length: 5.0\r\n",
		"an exponent":               "Content-Length: 5e0\r\n",
		"too large for 64 bits":     "Content-Length: 18446744073709551621\r\n",
		"too large for 32 bits":     "Content-Length: 4294967301\r\n",
		"empty":                     "Content-Length:\r\n",
		"empty, and another":        "Content-Length:\r\nContent-Length: 5\r\n",
		"a blank before the colon":  "Content-Length : 5\r\n",
		"a tab before the colon":    "Content-Length\t: 5\r\n",
		"a folded value":            "Content-Length:\r\n 5\r\n",
		"a vertical tab":            "Content-Length:\x0b5\r\n",
		"a NUL":                     "Content-Length: 5\x00\r\n",
		"digits that are not ASCII": "Content-Length: \xd9\xa5\r\n",
		"an underscore":             "Content_Length: 5\r\n",
		"after a bare LF":           "X: y\nContent-Length: 5\r\n",
		"after a bare CR":           "X: y\rContent-Length: 5\r\n",
		"named as a hop's own":      "Connection: content-length\r\nContent-Length: 5\r\n",
	} {
		all = append(all, attack{"CL, " + name, "POST /outer HTTP/1.1\r\n{outer}" + lines + "\r\n12345" + inner, "/outer 12345 /inner"})
	}
	return all
}

// chunks are about how a chunked body is written.
func chunks() []attack {
	var all []attack
	for name, body := range map[string]string{
		"an extension":                  "5;a=b\r\nhello\r\n0\r\n\r\n",
		"an extension with a line feed": "5;a\nhello\r\n0\r\n\r\n",
		"an extension with a bare CR":   "5;a\rb\r\nhello\r\n0\r\n\r\n",
		"an extension in quotes":        "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n",
		"an extension of the last":      "5\r\nhello\r\n0;a=b\r\n\r\n",
		"a bare LF after the size":      "5\nhello\r\n0\r\n\r\n",
		"a bare LF after the data":      "5\r\nhello\n0\r\n\r\n",
		"bare LFs at the end":           "5\r\nhello\r\n0\n\n",
		"a bare CR after the size":      "5\rhello\r\n0\r\n\r\n",
		"no line end after the data":    "5\r\nhello0\r\n\r\n",
		"two bytes after the data":      "5\r\nhelloXX0\r\n\r\n",
		"a blank before the size":       " 5\r\nhello\r\n0\r\n\r\n",
		"a blank after the size":        "5 \r\nhello\r\n0\r\n\r\n",
		"a plus sign":                   "+5\r\nhello\r\n0\r\n\r\n",
		"a minus sign":                  "-5\r\nhello\r\n0\r\n\r\n",
		"a 0x":                          "0x5\r\nhello\r\n0\r\n\r\n",
		"leading zeros":                 "0000000000000000000005\r\nhello\r\n0\r\n\r\n",
		"a size beyond 64 bits":         "10000000000000005\r\nhello\r\n0\r\n\r\n",
		"an empty size":                 "\r\nhello\r\n0\r\n\r\n",
		"a size of letters":             "hello\r\n0\r\n\r\n",
		"many zeros as the last":        "5\r\nhello\r\n000\r\n\r\n",
		"trailers":                      "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
		"a length as trailer":           "5\r\nhello\r\n0\r\nContent-Length: 99\r\n\r\n",
		"a coding as trailer":           "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a key as trailer":              "5\r\nhello\r\n0\r\n{key}\r\n",
		"a folded trailer":              "5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
		"a trailer with a bare LF":      "5\r\nhello\r\n0\r\nX: y\n\r\n",
	} {
		all = append(all, attack{"chunks, " + name, "POST /outer HTTP/1.1\r\n{outer}Transfer-Encoding: chunked\r\n\r\n" + body + inner, "/outer /inner"})
	}
	return append(all, attack{
		"chunks with a request in them", "POST /outer HTTP/1.1\r\n{outer}Transfer-Encoding: chunked\r\n\r\n1d\r\nGET /hidden HTTP/1.1\r\nX: 12\r\n\r\n\r\n0\r\n\r\n" + inner, "/outer /inner",
	})
}

// lineEnds are about where lines and headers end.
func lineEnds() []attack {
	return []attack{
		{"bare LFs", "GET /outer HTTP/1.1\n{outer}\n" + inner, "/outer /inner"},
		{"a bare LF ends the headers", "GET /outer HTTP/1.1\r\n{outer}X: y\n\n" + inner, "/outer /inner"},
		{"LF CR LF", "GET /outer HTTP/1.1\r\n{outer}X: y\n\r\n" + inner, "/outer /inner"},
		{"CR CR LF", "GET /outer HTTP/1.1\r\n{outer}X: y\r\r\n\r\n" + inner, "/outer /inner"},
		{"bare CRs", "GET /outer HTTP/1.1\r{outer}\r" + inner, "/outer /inner"},
		{"a bare CR in a value", "GET /outer HTTP/1.1\r\n{outer}X: a\rb: c\r\n\r\n" + inner, "/outer /inner"},
		{"a bare CR before a key", "GET /outer HTTP/1.1\r\n{outer}X: a\r{key}\r\n" + inner, "/outer /inner"},
		{"a bare LF before a key", "GET /outer HTTP/1.1\r\n{outer}X: a\n{key}\r\n" + inner, "/outer /inner"},
		{"a key in a folded line", "GET /outer HTTP/1.1\r\n{outer}X: a\r\n {key}\r\n" + inner, "/outer /inner"},
		{"a fold in the first header", "GET /outer HTTP/1.1\r\n {outer}\r\n" + inner, "/outer /inner"},
		{"a folded baggage", "GET /outer HTTP/1.1\r\n{outer}baggage: a=b,\r\n {member}\r\n\r\n" + inner, "/outer /inner"},
		{"empty lines before", "\r\n\r\nGET /outer HTTP/1.1\r\n{outer}\r\n" + inner, "/outer /inner"},
		{"empty lines between", "GET /outer HTTP/1.1\r\n{outer}\r\n\r\n\r\n" + inner, "/outer /inner"},
		{"a request after a NUL", "GET /outer HTTP/1.1\r\n{outer}X: a\x00" + inner, "/outer /inner"},
		{"a line with a NUL", "GET /outer HTTP/1.1\r\n{outer}X: a\x00\r\n\r\n" + inner, "/outer /inner"},
	}
}

// headerNames are about what a header's name may be.
func headerNames() []attack {
	var all []attack
	for name, line := range map[string]string{
		"a blank before the colon":     "baggage : {member}",
		"a tab before the colon":       "baggage\t: {member}",
		"a blank before the name":      " baggage: {member}",
		"a blank in the name":          "bag gage: {member}",
		"an underscore":                "x_baggage: {member}",
		"a NUL in the name":            "bag\x00gage: {member}",
		"a byte beyond ASCII":          "bagg\xe5ge: {member}",
		"a long s":                     "tracešate: {member}",
		"no colon":                     "baggage {member}",
		"no name":                      ": {member}",
		"a colon first":                ":baggage: {member}",
		"a pseudo header":              ":path: /inner",
		"a quoted name":                "\"baggage\": {member}",
		"a slash in the name":          "x/baggage: {member}",
		"a colon in the value":         "X: baggage: {member}",
		"the name twice":               "baggage: baggage: {member}",
		"a bracket":                    "baggage(: {member}",
		"empty lines of it":            "baggage:\r\nbaggage:",
		"a line feed in percent signs": "X: a%0d%0abaggage: {member}",
	} {
		all = append(all, attack{"name, " + name, "GET /outer HTTP/1.1\r\n{outer}" + line + "\r\n\r\n" + inner, "/outer /inner"})
	}
	return all
}

// targets are about the request line, and hosts.
func targets() []attack {
	lines := map[string]string{
		"absolute form":                  "GET http://other/outer HTTP/1.1",
		"absolute form with a user":      "GET http://u:p@other/outer HTTP/1.1",
		"absolute form, another scheme":  "GET ftp://other/outer HTTP/1.1",
		"absolute form of https":         "GET https://other/outer HTTP/1.1",
		"an asterisk":                    "OPTIONS * HTTP/1.1",
		"an asterisk for GET":            "GET * HTTP/1.1",
		"a target with a blank":          "GET /outer x HTTP/1.1",
		"a target with a version":        "GET /outer HTTP/1.1 HTTP/1.1",
		"a tab":                          "GET\t/outer\tHTTP/1.1",
		"two blanks":                     "GET  /outer HTTP/1.1",
		"a blank at the end":             "GET /outer HTTP/1.1 ",
		"no version":                     "GET /outer",
		"HTTP/0.9":                       "GET /outer HTTP/0.9",
		"HTTP/1.2":                       "GET /outer HTTP/1.2",
		"HTTP/2.0":                       "GET /outer HTTP/2.0",
		"HTTP/1.10":                      "GET /outer HTTP/1.10",
		"a small http":                   "GET /outer http/1.1",
		"a method in small letters":      "get /outer HTTP/1.1",
		"an unknown method":              "INVENT /outer HTTP/1.1",
		"no slash":                       "GET outer HTTP/1.1",
		"a fragment":                     "GET /outer#x HTTP/1.1",
		"line feeds in percent signs":    "GET /outer%0d%0a%0d%0aGET%20/hidden HTTP/1.1",
		"a bare CR":                      "GET /outer\rX HTTP/1.1",
		"a byte beyond ASCII":            "GET /outer\xff HTTP/1.1",
		"a NUL":                          "GET /outer\x00 HTTP/1.1",
		"CONNECT":                        "CONNECT customer:8080 HTTP/1.1",
		"CONNECT with a path":            "CONNECT /outer HTTP/1.1",
		"TRACE":                          "TRACE /outer HTTP/1.1",
		"the preface of HTTP/2, in part": "PRI * HTTP/2.0",
	}
	var all []attack
	const anything = "/outer http://other/outer http://u:p@other/outer ftp://other/outer https://other/outer * outer customer:8080 " +
		"/outer#x /outer%0d%0a%0d%0aGET%20/hidden /outer\xff /inner"
	for name, line := range lines {
		all = append(all, attack{"target, " + name, line + "\r\n{outer}\r\n" + inner, anything})
	}
	for name, host := range map[string]string{
		"two hosts": "Host: a\r\n", "an empty host": "Host:\r\n", "a host with a blank": "Host: a b\r\n", "a host with a comma": "Host: a, b\r\n",
		"a host with a path": "Host: a/b\r\n", "a host with a user": "Host: u@a\r\n",
	} {
		all = append(all, attack{"target, " + name, "GET /outer HTTP/1.1\r\n" + host + "{outer}\r\n" + inner, "/outer /inner"})
	}
	return all
}
