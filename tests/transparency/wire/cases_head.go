package wire

import (
	"fmt"
	"strings"
)

func hosts() map[string]h1 {
	all := map[string]h1{
		"host-none":           {send: "GET / HTTP/1.1\r\n{key}\r\n", status: true},
		"host-twice":          {send: ask("GET", "/", "Host: other"), status: true},
		"host-twice-equal":    {send: ask("GET", "/", "Host: app"), status: true},
		"host-twice-later":    {send: ask("GET", "/") + ask("GET", "/", "Host: other"), answers: 2, status: true},
		"host-twice-post":     {send: ask("POST", "/", "Host: other", "Content-Length: 5") + "hello", status: true},
		"host-absolute-twice": {send: ask("GET", "http://app/", "Host: other"), status: true},
		"host-last":           {send: "GET / HTTP/1.1\r\nAccept: a\r\n{key}Host: app\r\n\r\n"},
		"host-twice-old":      {send: "GET / HTTP/1.0\r\nHost: app\r\nHost: other\r\n{key}\r\n", status: true},
	}
	for name, host := range map[string]string{
		"port": "app:8080", "capitals": "APP", "ip": "10.0.0.1", "ipv6": "[::1]:80", "dot": "app.", "underscore": "my_app", "port-empty": "app:", "port-odd": "app:x", "utf8": "é",
		"empty": "", "comma": "a,b", "space": "a b", "slash": "a/b", "user": "u@app", "percent": "a%20b", "at": "@", "long": strings.Repeat("a", 300), "punycode": "xn--9ca", "backslash": `a\b`,
	} {
		all["host-"+name] = h1{send: "GET / HTTP/1.1\r\nHost: " + host + "\r\n{key}\r\n", status: strings.Contains("comma space slash user at backslash utf8", name)}
	}
	return all
}

// values are header lines that any application might get.
func values() map[string]h1 {
	all := map[string]h1{}
	for name, line := range map[string]string{
		"empty": "X-Empty:", "blank": "X-Blank:   ", "padded": "X-Padded:    a   ", "unpadded": "X-Unpadded:a", "tab": "X-Tab: a\tb", "utf8": "X-Name: é", "latin1": "X-Name: \xe9",
		"underscore": "x_under_score: 1", "dots": "x.dotted: 1", "symbols": "x!#$%&'*+-.^_`|~: 1", "digits": "1234: 1", "quoted": `X-Q: "a, b"`, "comma": "X-Comma: a, b", "twice": "X-Twice: a\r\nX-Twice: b",
		"twice-apart": "X-Twice: a\r\nX-Other: c\r\nx-twice: b", "cookies": "Cookie: a=1\r\nCookie: b=2", "cookie-long": "Cookie: a=" + strings.Repeat("x", 8<<10), "accept-twice": "Accept: a\r\nAccept: b",
		"user-agent-twice": "User-Agent: a\r\nUser-Agent: b", "authorization": "Authorization: Basic YTpi", "te": "TE: trailers", "te-deflate": "TE: deflate", "trailer": "Trailer: X-A", "keep-alive": "Keep-Alive: 300",
		"proxy-connection": "Proxy-Connection: keep-alive", "proxy-authorization": "Proxy-Authorization: Basic YTpi", "proxy": "Proxy: a", "via": "Via: 1.1 a", "forwarded": "Forwarded: for=1.2.3.4",
		"xff": "X-Forwarded-For: 1.2.3.4", "xff-twice": "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8", "forwarded-host": "X-Forwarded-Host: a", "forwarded-port": "X-Forwarded-Port: 1",
		"real-ip": "X-Real-IP: 1.2.3.4", "request-id": "X-Request-Id: 1", "client-trace": "X-Client-Trace-Id: 1", "envoy-timeout": "x-envoy-upstream-rq-timeout-ms: 1", "envoy-retry": "x-envoy-retry-on: 5xx",
		"envoy-internal": "x-envoy-internal: true", "envoy-external": "x-envoy-external-address: 1.2.3.4", "envoy-original-path": "x-envoy-original-path: /a", "envoy-attempts": "x-envoy-attempt-count: 1",
		"envoy-expected": "x-envoy-expected-rq-timeout-ms: 1", "envoy-downstream": "x-envoy-downstream-service-cluster: a", "envoy-force-trace": "x-envoy-force-trace: 1", "envoy-decorator": "x-envoy-decorator-operation: a",
		"envoy-hedge": "x-envoy-hedge-on-per-try-timeout: true", "envoy-max-retries": "x-envoy-max-retries: 1", "envoy-ip-tags": "x-envoy-ip-tags: a", "envoy-stream-idle": "x-envoy-peer-metadata: a", "original-dst": "x-envoy-original-dst-host: 1.2.3.4:5",
		"grpc-timeout": "grpc-timeout: 1S", "http2-settings": "HTTP2-Settings: AAMAAABkAAQAAP__", "connection-names": "Connection: X-Hop\r\nX-Hop: 1", "connection-twice": "Connection: keep-alive\r\nConnection: X-Hop",
		"connection-odd": "Connection: odd", "connection-empty": "Connection:", "expect-odd": "Expect: something", "range": "Range: bytes=0-1", "if-none-match": `If-None-Match: "1"`, "accept-encoding": "Accept-Encoding: gzip",
		"date": "Date: Mon, 01 Jan 2001 00:00:00 GMT", "server": "Server: a", "referer": "Referer: http://a/é", "content-type": "Content-Type: text/plain", "baggage-other": "baggage: a=b", "tracestate": "tracestate: a=b",
		"traceparent": "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "b3": "b3: 0", "sd-destination": "x-sd-destination: 1.2.3.4:5", "priority": "Priority: u=1", "status": "Status: 200",
		"path-header": "path: /a", "method-override": "X-HTTP-Method-Override: PUT", "original-url": "X-Original-URL: /a", "scheme": "scheme: https", "early-data": "Early-Data: 1", "content-length-0": "Content-Length: 0",
	} {
		all["header-"+name] = h1{send: ask("GET", "/header", line)}
	}
	for name, line := range map[string]string{
		"cr": "X-CR: a\rb", "cr-end": "X-CR: a\r", "cr-start": "X-CR: \ra", "crs": "X-CR: a\r\r", "nul": "X-Nul: a\x00b", "control": "X-Control: a\x01b", "delete": "X-Delete: a\x7fb", "vt": "X-VT: a\x0bb", "esc": "X-Esc: a\x1bb",
		"no-colon": "X-No-Colon", "no-name": ": a", "space-before-colon": "X-Space : a", "tab-before-colon": "X-Tab\t: a", "space-in-name": "X Space: a", "space-first": " X-First: a", "name-utf8": "é: a",
		"name-control": "X\x01: a", "name-brackets": "X(a): a", "name-pseudo": ":path: /a", "cr-in-name": "X-\rA: a", "nul-in-name": "X\x00A: a", "name-slash": "X/A: a", "name-at": "X@A: a",
	} {
		all["malformed-"+name] = h1{send: ask("GET", "/header", line), status: true}
	}
	return all
}

func folds() map[string]h1 {
	return map[string]h1{
		"fold":         {send: ask("GET", "/", "X-Fold: a\r\n b"), status: true},
		"fold-tab":     {send: ask("GET", "/", "X-Fold: a\r\n\tb"), status: true},
		"fold-empty":   {send: ask("GET", "/", "X-Fold:\r\n b"), status: true},
		"fold-first":   {send: "GET / HTTP/1.1\r\n X-Fold: a\r\nHost: app\r\n{key}\r\n", status: true},
		"fold-host":    {send: "GET / HTTP/1.1\r\nHost:\r\n app\r\n{key}\r\n", status: true},
		"lf-in-head":   {send: "GET /lf HTTP/1.1\nHost: app\n{key}X-A: b\n\n", status: true},
		"lf-mixed":     {send: "GET /lf HTTP/1.1\r\nHost: app\n{key}X-A: b\r\n\r\n", status: true},
		"head-cut-off": {send: "GET /cut HTTP/1.1\r\nHost: app\r\n{key}X-A: b\r\n", status: true},
	}
}

// heads are large ones.
func heads() map[string]h1 {
	all := map[string]h1{}
	for _, size := range []int{8, 32, 59, 64, 100, 256, 512, 900, 1000} {
		all[fmt.Sprintf("head-%dk", size)] = h1{send: ask("GET", "/head", "X-Long: "+strings.Repeat("x", size<<10))}
		all[fmt.Sprintf("head-lines-%dk", size)] = h1{send: ask("GET", "/head", strings.TrimSuffix(strings.Repeat("X-Long: "+strings.Repeat("x", 1014)+"\r\n", size), "\r\n"))}
	}
	for _, n := range []int{50, 99, 500, 990, 1001, 2000, 5000, 10000} {
		all[fmt.Sprintf("head-%d-lines", n)] = h1{send: ask("GET", "/head", strings.TrimSuffix(strings.Repeat("X-Many: y\r\n", n), "\r\n"))}
	}
	all["head-2048k"] = h1{send: ask("GET", "/head", "X-Long: "+strings.Repeat("x", 2<<20)), status: true}
	all["head-after-get"] = h1{send: ask("GET", "/head") + ask("GET", "/head", "X-Long: "+strings.Repeat("x", 500<<10)), answers: 2}
	all["head-post-256k"] = h1{send: ask("POST", "/head", "X-Long: "+strings.Repeat("x", 256<<10), "Content-Length: 5") + "hello"}
	return all
}

func forwarding() map[string]h1 {
	all := map[string]h1{}
	for name, lines := range map[string][]string{
		"none": {}, "http": {"X-Forwarded-Proto: http"}, "https": {"X-Forwarded-Proto: https"}, "odd": {"X-Forwarded-Proto: ftp"}, "list": {"X-Forwarded-Proto: https, http"},
		"twice": {"X-Forwarded-Proto: https", "X-Forwarded-Proto: http"}, "empty": {"X-Forwarded-Proto:"}, "capitals": {"X-FORWARDED-PROTO: HTTPS"}, "percent": {"X-Forwarded-Proto: %REQ(a)%"},
		"internal": {"X-Sd-Forwarded-Proto: https"},
	} {
		all["forwarded-proto-"+name] = h1{send: ask("GET", "/forwarded", lines...)}
	}
	return all
}

// echoed ask Serve for the head that it got.
func echoed() map[string]h1 {
	return map[string]h1{
		"echo-plain":       {send: ask("GET", "/echo")},
		"echo-post":        {send: ask("POST", "/echo", "Content-Length: 5") + "hello"},
		"echo-header-case": {send: "GET /exact HTTP/1.1\r\nhOst: app\r\nX-mIxEd: 1\r\n{key}\r\n", exact: true},
		"echo-no-length":   {send: ask("POST", "/exact")},
		"echo-connection":  {send: ask("GET", "/exact", "Connection: keep-alive")},
		"echo-order":       {send: "GET /exact HTTP/1.1\r\nx-b: 1\r\nx-a: 2\r\nhost: app\r\nx-c: 3\r\n\r\n"},
	}
}
