package wire

import (
	"fmt"
	"strings"
)

// ask is a request without a body, with more lines.
func ask(method, target string, lines ...string) string {
	var more strings.Builder
	for _, line := range lines {
		more.WriteString(line + "\r\n")
	}
	return method + " " + target + " HTTP/1.1\r\nHost: app\r\n{key}" + more.String() + "\r\n"
}

// post is a request with header lines and bytes after them.
func post(bytes string, lines ...string) string { return ask("POST", "/post", lines...) + bytes }

func methods() map[string]h1 {
	all := map[string]h1{
		"method-none":       {send: " / HTTP/1.1\r\nHost: app\r\n{key}\r\n", status: true},
		"method-with-colon": {send: ask("GE:T", "/"), status: true},
		"method-utf8":       {send: ask("GÉT", "/"), status: true},
		"method-options-*":  {send: ask("OPTIONS", "*")},
		"method-trace-body": {send: ask("TRACE", "/", "Content-Length: 5") + "hello"},
		"connect-refused":   {send: "CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n{key}\r\n"},
		"connect-tunnel":    {send: "CONNECT tunnel:1 HTTP/1.1\r\nHost: tunnel:1\r\n{key}\r\n", method: "CONNECT"},
		"connect-path":      {send: ask("CONNECT", "/")},
		"connect-no-port":   {send: "CONNECT elsewhere HTTP/1.1\r\nHost: elsewhere\r\n{key}\r\n", status: true},
		"method-after-get":  {send: ask("GET", "/") + ask("FOO", "/"), answers: 2},
	}
	for _, m := range []string{
		"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT",
		"SEARCH", "PURGE", "LINK", "NOTIFY", "SUBSCRIBE", "QUERY", "M-SEARCH", "MSEARCH", "FOO", "foo", "get", "BAN", "VERSION-CONTROL", "X!", "G", "PRI",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ",
	} {
		c := h1{send: ask(m, "/method")}
		if m == "HEAD" {
			c.method = m
		}
		all["method-"+m] = c
	}
	all["method-typed-QUERY"] = h1{send: ask("QUERY", "/body", "Content-Type: text/plain", "Content-Length: 5") + "hello"}
	for _, m := range []string{"QUERY", "FOO", "PUT", "DELETE", "GET", "HEAD", "OPTIONS"} {
		c := h1{send: ask(m, "/body", "Content-Length: 5") + "hello"}
		if m == "HEAD" {
			c.method = m
		}
		all["method-body-"+m] = c
	}
	return all
}

const socketLines = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"

func upgrades() map[string]h1 {
	all := map[string]h1{
		"upgrade-websocket-post":      {send: ask("POST", "/plain", "Connection: Upgrade", "Upgrade: websocket", socketLines, "Content-Length: 5") + "hello"},
		"upgrade-websocket-post-none": {send: ask("POST", "/plain", "Connection: Upgrade", "Upgrade: websocket", socketLines, "Content-Length: 0")},
		"upgrade-websocket-chunks":    {send: ask("POST", "/plain", "Connection: Upgrade", "Upgrade: websocket", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n"},
		"upgrade-websocket-head":      {send: ask("HEAD", "/plain", "Connection: Upgrade", "Upgrade: websocket", socketLines), method: "HEAD"},
		"upgrade-websocket-404":       {send: ask("GET", "/answer/status-404", "Connection: Upgrade", "Upgrade: websocket", socketLines)},
		"upgrade-websocket-302":       {send: ask("GET", "/answer/status-302", "Connection: Upgrade", "Upgrade: websocket", socketLines)},
		"upgrade-websocket-200-long":  {send: ask("GET", "/answer/large-body", "Connection: Upgrade", "Upgrade: websocket", socketLines)},
		"upgrade-websocket-chunked":   {send: ask("GET", "/answer/chunks", "Connection: Upgrade", "Upgrade: websocket", socketLines)},
		"upgrade-early-bytes":         {send: ask("GET", "/upgrade", "Connection: Upgrade", "Upgrade: websocket", socketLines) + "ping"},
		"upgrade-unnamed":             {send: ask("GET", "/plain", "Connection: Upgrade")},
		"upgrade-without-connection":  {send: ask("GET", "/plain", "Upgrade: websocket")},
		"upgrade-old":                 {send: "GET /plain HTTP/1.0\r\nHost: app\r\n{key}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		"upgrade-tls-post":            {send: ask("POST", "/plain", "Connection: Upgrade", "Upgrade: TLS/1.2", "Content-Length: 5") + "hello"},
		"upgrade-tls-pipelined":       {send: strings.Repeat(ask("GET", "/plain", "Connection: Upgrade", "Upgrade: TLS/1.2"), 3), answers: 3},
		"upgrade-two-lines":           {send: ask("GET", "/plain", "Connection: Upgrade", "Upgrade: foo", "Upgrade: bar")},
		"upgrade-h2c":                 {send: ask("GET", "/plain", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")},
		"upgrade-h2c-first-of-two":    {send: ask("GET", "/plain", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c, websocket", "HTTP2-Settings: AAMAAABkAAQAAP__")},
	}
	for name, value := range map[string]string{
		"websocket": "websocket", "websocket-capitals": "WebSocket", "tls-1.0": "TLS/1.0", "tls-1.2": "TLS/1.2", "tls-1.3": "TLS/1.3", "tcp": "tcp", "spdy": "SPDY/3.1",
		"http-2.0": "HTTP/2.0", "foo": "foo", "list": "foo, bar", "list-websocket": "websocket, foo", "irc": "IRC/6.9", "connect-udp": "connect-udp", "devtools": "chrome-devtools", "empty": "",
	} {
		lines := []string{"Connection: Upgrade", "Upgrade: " + value, socketLines}
		all["upgrade-"+name] = h1{send: ask("GET", "/plain", lines...)}
		all["upgrade-accepted-"+name] = h1{send: ask("GET", "/upgrade", lines...)}
	}
	return all
}

func targets() map[string]h1 {
	all := map[string]h1{}
	for name, target := range map[string]string{
		"root": "/", "slashes": "//a//b", "dots": "/a/../b", "dot": "/./a", "dots-above": "/../../etc", "dots-escaped": "/a/%2e%2e/b", "slash-escaped": "/a%2fb", "slash-escaped-capitals": "/a%2Fb",
		"backslash": `/a\b`, "fragment": "/a#b", "fragment-only": "/#", "question-twice": "/a?b?c", "question-empty": "/?", "colon": "/a:b", "semicolon": "/a;b=c", "tilde": "/~a", "pipe": "/a|b", "braces": "/{a}",
		"brackets": "/a[1]?b[]=c", "caret": "/a^b", "quote": `/a"b`, "angle": "/<a>", "backtick": "/a`b", "apostrophe": "/a'b", "plus": "/a+b", "percent": "/100%", "percent-odd": "/%zz", "percent-nul": "/a%00b",
		"percent-utf8": "/%C3%A9", "utf8": "/é", "utf8-query": "/?q=é", "latin1": "/\xe9", "high-control": "/a\x7fb", "low-control": "/a\x01b", "tab": "/a\tb", "trailing-dot": "/a.", "trailing-slash": "/a/",
		"absolute": "http://app/a?b=c", "absolute-no-path": "http://app", "absolute-other-host": "http://other/a", "absolute-https": "https://app/a", "absolute-port": "http://app:8080/a",
		"absolute-user": "http://u:p@app/a", "absolute-capitals": "HTTP://APP/a", "absolute-ftp": "ftp://app/a", "absolute-dots": "http://app/a/../b", "absolute-empty-host": "http:///a", "relative": "a/b", "star": "*",
		"star-path": "/*", "query-only": "?a", "authority": "app:80", "scheme-only": "http:/a", "long-8k": "/" + strings.Repeat("a", 8<<10), "long-60k": "/" + strings.Repeat("a", 60<<10),
		"long-100k": "/" + strings.Repeat("a", 100<<10), "long-500k": "/" + strings.Repeat("a", 500<<10),
	} {
		all["target-"+name] = h1{send: ask("GET", target)}
	}
	for _, name := range []string{"high-control", "low-control", "tab", "query-only", "relative", "percent", "percent-odd", "scheme-only", "authority", "absolute-empty-host"} {
		c := all["target-"+name]
		c.status = true
		all["target-"+name] = c
	}
	all["target-space"] = h1{send: ask("GET", "/a b"), status: true}
	all["target-none"] = h1{send: "GET HTTP/1.1\r\nHost: app\r\n{key}\r\n", status: true}
	all["target-empty"] = h1{send: "GET  HTTP/1.1\r\nHost: app\r\n{key}\r\n", status: true}
	return all
}

func versions() map[string]h1 {
	all := map[string]h1{
		"old":                  {send: "GET /a HTTP/1.0\r\nHost: app\r\n{key}\r\n"},
		"old-no-host":          {send: "GET /a HTTP/1.0\r\n{key}\r\n"},
		"old-kept":             {send: "GET /a HTTP/1.0\r\nHost: app\r\nConnection: keep-alive\r\n{key}\r\n"},
		"old-kept-upper":       {send: "GET /a HTTP/1.0\r\nHost: app\r\nConnection: Keep-Alive\r\n{key}\r\n"},
		"old-post":             {send: "POST /a HTTP/1.0\r\nHost: app\r\n{key}Content-Length: 5\r\n\r\nhello"},
		"old-post-bare":        {send: "POST /a HTTP/1.0\r\nHost: app\r\n{key}\r\n"},
		"old-chunks":           {send: "POST /a HTTP/1.0\r\nHost: app\r\n{key}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", status: true},
		"old-expect":           {send: "POST /continue HTTP/1.0\r\nHost: app\r\n{key}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"},
		"version-trailing":     {send: "GET / HTTP/1.1 \r\nHost: app\r\n{key}\r\n", status: true},
		"version-spaces":       {send: "GET  /  HTTP/1.1\r\nHost: app\r\n{key}\r\n", status: true},
		"version-tabs":         {send: "GET\t/\tHTTP/1.1\r\nHost: app\r\n{key}\r\n", status: true},
		"version-bare-lf":      {send: "GET / HTTP/1.1\nHost: app\n\n", status: true},
		"version-crlf-first":   {send: "\r\n" + ask("GET", "/a")},
		"version-crlfs-first":  {send: "\r\n\r\n\r\n" + ask("GET", "/a"), status: true},
		"version-crlf-between": {send: ask("GET", "/a") + "\r\n" + ask("GET", "/b"), answers: 2},
		"version-space-first":  {send: " " + ask("GET", "/a"), status: true},
		"version-cr-end":       {send: "GET / HTTP/1.1\rHost: app\r\n\r\n", status: true},
		"version-none-line":    {send: "GET /a\r\n", status: true},
	}
	for name, version := range map[string]string{
		"0.9": "HTTP/0.9", "1.2": "HTTP/1.2", "1.9": "HTTP/1.9", "2.0": "HTTP/2.0", "2": "HTTP/2", "3.0": "HTTP/3.0", "1": "HTTP/1", "1.": "HTTP/1.", "1.10": "HTTP/1.10", "01.1": "HTTP/01.1", "11": "HTTP/1,1",
		"lower": "http/1.1", "https": "HTTPS/1.1", "rtsp": "RTSP/1.0", "icap": "ICAP/1.0", "sip": "SIP/2.0", "none": "", "word": "HTTP",
	} {
		bad := fmt.Sprintf("GET /a %s\r\nHost: app\r\n{key}\r\n", version)
		if version == "" {
			bad = "GET /a\r\nHost: app\r\n{key}\r\n"
		}
		all["version-"+name] = h1{send: bad, status: true}
		all["version-later-"+name] = h1{send: ask("GET", "/first") + bad, answers: 2, status: true}
	}
	return all
}
