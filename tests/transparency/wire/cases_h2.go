package wire

import (
	"fmt"
	"strings"
)

// with returns a case with fields: name, value, name, value.
func with(pairs ...string) h2 {
	c := h2{}
	for i := 0; i+1 < len(pairs); i += 2 {
		c.fields = append(c.fields, [2]string{pairs[i], pairs[i+1]})
	}
	return c
}

// refused is a case of which only the status counts.
func refused(pairs ...string) h2 {
	c := with(pairs...)
	c.status = true
	return c
}

func methods2() map[string]h2 {
	all := map[string]h2{
		"method-none":         refused(":method", drop),
		"method-empty":        refused(":method", ""),
		"method-space":        refused(":method", "GE T"),
		"method-utf8":         refused(":method", "GÉT"),
		"method-twice":        refused("+:method", "PUT"),
		"method-options-*":    with(":method", "OPTIONS", ":path", "*"),
		"connect":             refused(":method", "CONNECT", ":scheme", drop, ":path", drop, ":authority", "elsewhere:443"),
		"connect-path":        refused(":method", "CONNECT"),
		"connect-websocket":   refused(":method", "CONNECT", ":protocol", "websocket", "sec-websocket-version", "13"),
		"connect-protocol-ip": refused(":method", "CONNECT", ":protocol", "connect-ip"),
	}
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "M-SEARCH", "FOO", "foo", "get", "X!", "PRI", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOP"} {
		all["method-"+m] = with(":method", m)
	}
	for _, m := range []string{"QUERY", "FOO", "GET", "DELETE"} {
		c := with(":method", m)
		c.body = "hello"
		all["method-body-"+m] = c
	}
	return all
}

func targets2() map[string]h2 {
	all := map[string]h2{}
	for name, target := range map[string]string{
		"slashes": "//a//b", "dots": "/a/../b", "dots-escaped": "/a/%2e%2e/b", "slash-escaped": "/a%2fb", "fragment": "/a#b", "question-empty": "/?", "backslash": `/a\b`, "pipe": "/a|b", "quote": `/a"b`, "braces": "/{a}",
		"percent": "/100%", "percent-odd": "/%zz", "percent-nul": "/a%00b", "utf8": "/é", "utf8-query": "/?q=é", "latin1": "/\xe9", "long-8k": "/" + strings.Repeat("a", 8<<10), "long-100k": "/" + strings.Repeat("a", 100<<10), "semicolon": "/a;b=c",
	} {
		all["target-"+name] = with(":path", target)
	}
	for name, target := range map[string]string{
		"empty": "", "relative": "a/b", "star": "*", "absolute": "http://app/a", "space": "/a b", "tab": "/a\tb", "nul": "/a\x00b", "control": "/a\x01b", "delete": "/a\x7fb", "crlf": "/a\r\nb: c", "none": drop, "query-only": "?a",
	} {
		all["target-"+name] = refused(":path", target)
	}
	for name, authority := range map[string]string{"port": "app:80", "capitals": "APP", "ipv6": "[::1]:80", "underscore": "my_app", "dot": "app."} {
		all["authority-"+name] = with(":authority", authority)
	}
	for name, authority := range map[string]string{"empty": "", "comma": "a,b", "user": "u@app", "slash": "a/b", "space": "a b", "utf8": "é", "none": drop} {
		all["authority-"+name] = refused(":authority", authority)
	}
	all["authority-and-host"] = with("host", "app")
	all["authority-and-other-host"] = with("host", "other")
	all["host-only"] = with(":authority", drop, "host", "app")
	all["scheme-https"] = with(":scheme", "https")
	all["scheme-odd"] = with(":scheme", "ftp")
	all["scheme-none"] = refused(":scheme", drop)
	all["scheme-empty"] = refused(":scheme", "")
	return all
}

func fields2() map[string]h2 {
	all := map[string]h2{}
	for name, pair := range map[string][2]string{
		"empty": {"x-empty", ""}, "underscore": {"x_under", "1"}, "utf8": {"x-name", "é"}, "latin1": {"x-name", "\xe9"}, "tab": {"x-tab", "a\tb"}, "symbols": {"x!#$%&'*+-.^_`|~", "1"}, "comma": {"x-comma", "a, b"},
		"te": {"te", "trailers"}, "via": {"via", "1.1 a"}, "xff": {"x-forwarded-for", "1.2.3.4"}, "forwarded-proto": {"x-forwarded-proto", "https"}, "forwarded-proto-odd": {"x-forwarded-proto", "ftp"}, "envoy-timeout": {"x-envoy-upstream-rq-timeout-ms", "1"},
		"expect": {"expect", "100-continue"}, "request-id": {"x-request-id", "1"}, "sd-destination": {"x-sd-destination", "1.2.3.4:5"}, "cookie": {"cookie", "a=1; b=2"}, "trailer": {"trailer", "x-sum"}, "http2-settings": {"http2-settings", "AAMAAABkAAQAAP__"},
		"keep": {"priority", "u=1"}, "content-length-0": {"content-length", "0"}, "grpc-timeout": {"grpc-timeout", "1S"}, "envoy-internal": {"x-envoy-internal", "true"}, "original-dst": {"x-envoy-original-dst-host", "1.2.3.4:5"},
	} {
		all["header-"+name] = with(pair[0], pair[1])
	}
	for name, pair := range map[string][2]string{
		"capitals": {"X-A", "1"}, "space-first": {"x-a", " 1"}, "space-last": {"x-a", "1 "}, "cr": {"x-a", "a\rb"}, "lf": {"x-a", "a\nb"}, "nul": {"x-a", "a\x00b"}, "control": {"x-a", "a\x01b"}, "delete": {"x-a", "a\x7fb"}, "name-space": {"x a", "1"},
		"name-empty": {"", "1"}, "name-colon": {"x:a", "1"}, "name-utf8": {"é", "1"}, "connection": {"connection", "close"}, "keep-alive": {"keep-alive", "1"}, "proxy-connection": {"proxy-connection", "close"},
		"transfer-encoding": {"transfer-encoding", "chunked"}, "upgrade": {"upgrade", "websocket"}, "te-odd": {"te", "gzip"}, "pseudo-odd": {":odd", "1"}, "pseudo-status": {":status", "200"}, "pseudo-protocol": {":protocol", "websocket"}, "length-odd": {"content-length", "x"},
	} {
		all["malformed-"+name] = refused(pair[0], pair[1])
	}
	all["header-twice"] = with("x-twice", "a", "x-other", "c", "x-twice", "b")
	all["header-cookies"] = with("cookie", "a=1", "cookie", "b=2")
	all["header-none"] = with()
	all["malformed-pseudo-last"] = refused("x-a", "b", "+:path", "/b")
	all["malformed-host-twice"] = refused(":authority", drop, "host", "a", "host", "b")
	return all
}

func heads2() map[string]h2 {
	all := map[string]h2{}
	for _, size := range []int{8, 32, 59, 64, 100, 256, 512, 900} {
		all[fmt.Sprintf("head-%dk", size)] = with("x-long", strings.Repeat("x", size<<10))
	}
	for _, n := range []int{50, 99, 500, 990, 1001, 2000, 5000, 10000} {
		c := h2{}
		for range n {
			c.fields = append(c.fields, [2]string{"x-many", "y"})
		}
		all[fmt.Sprintf("head-%d-lines", n)] = c
	}
	long := h2{}
	for range 9 {
		long.fields = append(long.fields, [2]string{"x-long", strings.Repeat("x", 100<<10)})
	}
	all["head-9-fields-900k"] = long
	all["head-2048k"] = refused("x-long", strings.Repeat("x", 2<<20))
	return all
}

func bodies2() map[string]h2 {
	post := func(c h2) h2 {
		c.fields = append([][2]string{{":method", "POST"}, {":path", "/post"}}, c.fields...)
		return c
	}
	one := func(name, value string) [][2]string { return [][2]string{{name, value}} }
	return map[string]h2{
		"body":                    post(h2{body: "hello"}),
		"body-length":             post(h2{body: "hello", fields: one("content-length", "5")}),
		"body-length-less":        post(h2{body: "hello", fields: one("content-length", "4"), status: true}),
		"body-length-more":        post(h2{body: "hello", fields: one("content-length", "6"), status: true}),
		"body-length-twice":       post(h2{body: "hello", fields: [][2]string{{"content-length", "5"}, {"content-length", "5"}}, status: true}),
		"body-length-none":        post(h2{}),
		"body-trailers":           post(h2{body: "hello", trailers: one("x-sum", "1")}),
		"body-trailers-only":      post(h2{trailers: one("x-sum", "1")}),
		"body-trailers-pseudo":    post(h2{body: "hello", trailers: one(":path", "/b"), status: true}),
		"body-trailers-malformed": post(h2{body: "hello", trailers: one("X-Sum", "1"), status: true}),
		"body-trailers-key":       post(h2{body: "hello", trailers: one("baggage", "sd-routing-key=other")}),
		"body-long":               post(h2{body: strings.Repeat("x", 60000)}),
		"body-expect":             post(h2{body: "hello", fields: one("expect", "100-continue")}),
		"body-open":               post(h2{body: "hello", open: true, status: true}),
	}
}
