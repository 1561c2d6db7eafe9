package keeper_test

// hops are about headers that end at the proxy, and those that are the proxy's.
func hops() []attack {
	var all []attack
	for name, lines := range map[string]string{
		"a destination of the client's":  "x-sd-destination: 127.0.0.1:1\r\n",
		"two destinations":               "x-sd-destination: 127.0.0.1:1\r\nX-SD-Destination: 127.0.0.1:2\r\n",
		"the destination as hop's own":   "Connection: x-sd-destination\r\n",
		"both":                           "Connection: x-sd-destination\r\nx-sd-destination: 127.0.0.1:1\r\n",
		"the key as hop's own":           "Connection: baggage\r\n",
		"the key as hop's own, before":   "Connection: keep-alive, baggage\r\n{key}",
		"the key as hop's own, folded":   "Connection: keep-alive,\r\n baggage\r\n{key}",
		"the key as hop's own, in lines": "Connection: keep-alive\r\nConnection: Baggage\r\n",
		"tracestate as hop's own":        "Connection: tracestate\r\n",
		"the host as hop's own":          "Connection: host\r\n",
		"a pseudo header as hop's own":   "Connection: :path\r\n",
		"twenty of them":                 "Connection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,baggage\r\n",
		"an upstream's answer time":      "x-envoy-upstream-rq-timeout-ms: 1\r\n",
		"retries":                        "x-envoy-retry-on: 5xx,reset\r\nx-envoy-max-retries: 5\r\n",
		"another original destination":   "x-envoy-original-dst-host: 127.0.0.1:1\r\n",
		"a path of before":               "x-envoy-original-path: /hidden\r\n",
		"a forwarded protocol":           "x-forwarded-proto: ftp\r\n",
		"proxy connection":               "Proxy-Connection: baggage\r\n",
		"keep alive":                     "Keep-Alive: baggage\r\n",
	} {
		all = append(all, attack{"hop, " + name, "GET /outer HTTP/1.1\r\n{outer}" + lines + "\r\n" + inner, "/outer /inner"})
	}
	return all
}

// upgrades are about connections that might become something else: the backends
// accept an upgrade for /accept and answer 200 otherwise.
func upgrades() []attack {
	var all []attack
	const websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
	const h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
	for name, lines := range map[string]string{
		"WebSocket":                   websocket,
		"WebSocket, in upper case":    "Connection: UPGRADE\r\nUpgrade: WEBSOCKET\r\n",
		"WebSocket with a body":       websocket + "Content-Length: 5\r\n",
		"WebSocket with chunks":       websocket + "Transfer-Encoding: chunked\r\n",
		"h2c":                         h2c,
		"h2c without the setting":     "Connection: Upgrade\r\nUpgrade: h2c\r\n",
		"h2c as hop's own":            "Connection: Upgrade, HTTP2-Settings, baggage\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		"TLS":                         "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n",
		"a list of two":               "Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n",
		"unknown":                     "Connection: Upgrade\r\nUpgrade: anything\r\n",
		"no Connection header":        "Upgrade: websocket\r\n",
		"two Upgrade headers":         "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n",
		"a Connection without a word": "Connection:\r\nUpgrade: websocket\r\n",
		"expecting to be told":        "Expect: 100-continue\r\n",
		"expecting to be told, twice": "Expect: 100-continue\r\nExpect: 100-continue\r\n",
		"expecting something else":    "Expect: 200-ok\r\n",
	} {
		all = append(all, attack{"upgrade refused, " + name, "GET /outer HTTP/1.1\r\n{outer}" + lines + "\r\n" + inner, "/outer /inner"})
		if name != "WebSocket" && name != "WebSocket, in upper case" {
			all = append(all, attack{"upgrade accepted, " + name, "GET /accept HTTP/1.1\r\n{outer}" + lines + "\r\n" + inner, "/accept /inner"})
		}
	}
	return append(all,
		// Accepted by right: then all that follows is the tunnel's, and no request.
		attack{"a tunnel with a request in it", "GET /accept HTTP/1.1\r\n{outer}" + websocket + "\r\nGET /hidden HTTP/1.1\r\n{inner}\r\n", "/accept"},
		attack{"a POST that asks for an upgrade", "POST /outer HTTP/1.1\r\n{outer}" + websocket + "Content-Length: 3\r\n\r\nabc" + inner, "/outer /inner"},
	)
}

// plainBodies are unambiguous: the content of a body is not a request.
func plainBodies() []attack {
	const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n" // 34 bytes
	return []attack{
		{"two requests", "GET /outer HTTP/1.1\r\n{outer}\r\n" + inner, "/outer /inner"},
		{"a request in a body", "POST /outer HTTP/1.1\r\n{outer}Content-Length: 34\r\n\r\n" + hidden + inner, "/outer /inner"},
		{"a request in the body of a GET", "GET /outer HTTP/1.1\r\n{outer}Content-Length: 34\r\n\r\n" + hidden + inner, "/outer /inner"},
		{"a request in the body of a DELETE", "DELETE /outer HTTP/1.1\r\n{outer}Content-Length: 34\r\n\r\n" + hidden + inner, "/outer /inner"},
		{"a request in a chunk", "POST /outer HTTP/1.1\r\n{outer}Transfer-Encoding: chunked\r\n\r\n22\r\n" + hidden + "\r\n0\r\n\r\n" + inner, "/outer /inner"},
		{"CL.0: a backend that answers before the body", "POST /early HTTP/1.1\r\n{outer}Content-Length: 34\r\n\r\n" + hidden + inner, "/early /inner"},
		{"CL.0: with a close", "POST /early HTTP/1.1\r\n{outer}Connection: close\r\nContent-Length: 34\r\n\r\n" + hidden + inner, "/early /inner"},
		{"CL.0: in chunks", "POST /early HTTP/1.1\r\n{outer}Transfer-Encoding: chunked\r\n\r\n22\r\n" + hidden + "\r\n0\r\n\r\n" + inner, "/early /inner"},
		{"CL.0: expecting to be told", "POST /early HTTP/1.1\r\n{outer}Expect: 100-continue\r\nContent-Length: 34\r\n\r\n" + hidden + inner, "/early /inner"},
		{"a body that does not come whole", "POST /outer HTTP/1.1\r\n{outer}Content-Length: 3400\r\n\r\n" + hidden, "/outer"},
		{"a close between", "GET /outer HTTP/1.1\r\n{outer}Connection: close\r\n\r\n" + inner, "/outer"},
		{"HTTP/1.0, then another", "GET /outer HTTP/1.0\r\n{outer}\r\n" + inner, "/outer"},
		{"HTTP/1.0 kept alive", "GET /outer HTTP/1.0\r\n{outer}Connection: keep-alive\r\n\r\n" + inner, "/outer /inner"},
	}
}

// attack2 is what one client sends on one stream of HTTP/2.
type attack2 struct {
	name string
	// fields come after the four pseudo headers of a POST to /outer, or replace
	// them by their names; {outer} as name stands for the routing key, if any.
	fields [][2]string
	// body is sent as data; "" ends the stream with the headers.
	body string
	// refused: no backend may see it.
	refused bool
}

func attacks2() []attack2 {
	const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
	one := func(name, value string) [][2]string { return [][2]string{{name, value}} }
	return []attack2{
		{"plain", nil, "", false},
		{"a request as body", nil, hidden, false},
		{"h2.CL: less than there is", one("content-length", "0"), hidden, true},
		{"h2.CL: more than there is", one("content-length", "9999"), hidden, true},
		{"h2.CL: two", [][2]string{{"content-length", "34"}, {"content-length", "35"}}, hidden, true},
		{"h2.CL: no number", one("content-length", "+34"), hidden, true},
		{"h2.TE", one("transfer-encoding", "chunked"), "0\r\n\r\n" + hidden, true},
		{"h2.TE in the TE header", one("te", "chunked"), hidden, true},
		{"connection", one("connection", "baggage"), "", true},
		{"upgrade", one("upgrade", "websocket"), "", true},
		{"proxy-connection", one("proxy-connection", "keep-alive"), "", true},
		{"keep-alive", one("keep-alive", "1"), "", true},
		{"CR LF in a value", one("x-a", "b\r\nbaggage: {member}"), "", true},
		{"LF in a value", one("x-a", "b\nbaggage: {member}"), "", true},
		{"CR in a value", one("x-a", "b\rbaggage: {member}"), "", true},
		{"NUL in a value", one("x-a", "b\x00baggage: {member}"), "", true},
		{"two requests in a value", one("x-a", "b\r\n\r\n"+hidden), "", true},
		{"CR LF in a name", one("x-a: b\r\nbaggage", "{member}"), "", true},
		{"a colon in a name", one("x-a: b", "{member}"), "", true},
		{"a blank in a name", one("x-a b", "c"), "", true},
		{"an empty name", one("", "c"), "", true},
		{"upper case in a name", one("Baggage", "{member}"), "", true},
		{"CR LF in the path", one(":path", "/outer HTTP/1.1\r\nbaggage: {member}\r\nX: y"), "", true},
		{"a blank in the path", one(":path", "/outer x"), "", true},
		{"an empty path", one(":path", ""), "", true},
		{"a path without a slash", one(":path", "outer"), "", true},
		{"CR LF in the method", one(":method", "GET /hidden HTTP/1.1\r\nX: y\r\n\r\nPOST"), "", true},
		{"a blank in the method", one(":method", "GET /hidden HTTP/1.1"), "", true},
		{"CR LF in the authority", one(":authority", "a\r\nbaggage: {member}"), "", true},
		{"a scheme with a line", one(":scheme", "http\r\nbaggage: {member}"), "", true},
		{"another scheme", one(":scheme", "ftp"), "", false},
		{"an unknown pseudo header", one(":unknown", "x"), "", true},
		{"a pseudo header after others", [][2]string{{"x-a", "b"}, {"+:path", "/hidden"}}, "", true},
		{"two paths", one("+:path", "/hidden"), "", true},
		{"two methods", one("+:method", "GET"), "", true},
		{"host and authority differ", one("host", "other"), "", false},
		{"a destination of the client's", one("x-sd-destination", "127.0.0.1:1"), "", false},
		{"CONNECT", [][2]string{{":method", "CONNECT"}}, "", true},
	}
}
