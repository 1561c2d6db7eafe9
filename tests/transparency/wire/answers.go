package wire

import (
	"fmt"
	"strings"
)

// odd is a response that a correct server sends rarely or never.
type odd struct {
	bytes  string
	closes bool
}

// oddAnswers returns the responses of Serve at /answer/NAME.
func oddAnswers() map[string]odd {
	all := map[string]odd{}
	for _, group := range []map[string]odd{oddLengths(), oddStatuses(), oddInterims(), oddHeaders(), oddEnds()} {
		for name, o := range group {
			all[name] = o
		}
	}
	return all
}

const (
	ok      = "HTTP/1.1 200 OK\r\n"
	chunked = "Transfer-Encoding: chunked\r\n"
	length5 = "Content-Length: 5\r\n"
	five    = length5 + "\r\nhello"
)

func oddLengths() map[string]odd {
	return map[string]odd{
		"plain":                       {ok + five, false},
		"length-twice":                {ok + length5 + five, false},
		"length-list":                 {ok + "Content-Length: 5, 5\r\n\r\nhello", false},
		"length-and-chunks":           {ok + length5 + chunked + "\r\n5\r\nhello\r\n0\r\n\r\n", false},
		"length-zero":                 {ok + "Content-Length: 0\r\n\r\n", false},
		"length-leading-zeros":        {ok + "Content-Length: 005\r\n\r\nhello", false},
		"length-0-on-204":             {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", false},
		"body-on-204":                 {"HTTP/1.1 204 No Content\r\n" + five, true},
		"chunks-on-204":               {"HTTP/1.1 204 No Content\r\n" + chunked + "\r\n0\r\n\r\n", true},
		"length-on-304":               {"HTTP/1.1 304 Not Modified\r\n" + length5 + "Etag: \"1\"\r\n\r\n", false},
		"nothing-on-304":              {"HTTP/1.1 304 Not Modified\r\n\r\n", false},
		"body-on-205":                 {"HTTP/1.1 205 Reset Content\r\n" + five, false},
		"chunks":                      {ok + chunked + "\r\n5\r\nhello\r\n0\r\n\r\n", false},
		"chunks-with-extensions":      {ok + chunked + "\r\n5;a=b\r\nhello\r\n0\r\n\r\n", false},
		"chunks-with-zeros":           {ok + chunked + "\r\n0005\r\nhello\r\n000\r\n\r\n", false},
		"chunks-with-trailers":        {ok + chunked + "Trailer: Sum\r\n\r\n5\r\nhello\r\n0\r\nSum: 1\r\nX-Two: 2\r\n\r\n", false},
		"chunks-in-capitals":          {ok + "Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n", false},
		"chunks-and-gzip":             {ok + "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true},
		"identity":                    {ok + "Transfer-Encoding: identity\r\n" + five, true},
		"to-the-end":                  {ok + "\r\nhello", true},
		"to-the-end-and-close":        {ok + "Connection: close\r\n\r\nhello", true},
		"too-short":                   {ok + "Content-Length: 50\r\n\r\nhello", true},
		"chunks-cut-off":              {ok + chunked + "\r\n50\r\nhello", true},
		"chunks-without-an-end":       {ok + chunked + "\r\n5\r\nhello\r\n", true},
		"large-body":                  {ok + fmt.Sprintf("Content-Length: %d\r\n\r\n", 1<<20) + strings.Repeat("x", 1<<20), false},
		"length-with-sign":            {ok + "Content-Length: +5\r\n\r\nhello", true},
		"length-negative":             {ok + "Content-Length: -5\r\n\r\nhello", true},
		"length-twice-and-different":  {ok + length5 + "Content-Length: 6\r\n\r\nhello!", true},
		"more-than-its-length":        {ok + five + "surplus", true},
		"length-on-200-without-bytes": {ok + length5 + "\r\n", true},
	}
}

func oddStatuses() map[string]odd {
	all := map[string]odd{
		"reason-none":        {"HTTP/1.1 200\r\n" + five, false},
		"reason-empty":       {"HTTP/1.1 200 \r\n" + five, false},
		"reason-own":         {"HTTP/1.1 200 All is well\r\n" + five, false},
		"reason-utf8":        {"HTTP/1.1 200 Très bien\r\n" + five, false},
		"version-1.0":        {"HTTP/1.0 200 OK\r\n" + five, true},
		"version-1.0-kept":   {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + five, false},
		"version-1.2":        {"HTTP/1.2 200 OK\r\n" + five, true},
		"version-lower-case": {"http/1.1 200 OK\r\n" + five, true},
		"status-two-digits":  {"HTTP/1.1 42 Odd\r\n" + five, true},
		"status-four-digits": {"HTTP/1.1 2000 Odd\r\n" + five, true},
		"garbage":            {"nobody speaks like that\r\n\r\n", true},
		"nothing":            {"", true},
		"half-a-head":        {"HTTP/1.1 200 OK\r\nA: b\r\n", true},
	}
	for _, status := range []string{"201", "202", "203", "206", "226", "299", "300", "301", "302", "303", "305", "307", "308", "400", "401", "402", "403", "404", "405", "406", "407", "408", "409", "410", "411", "412", "413", "414", "415", "416", "417", "418", "421", "422", "423", "424", "425", "426", "428", "429", "431", "451", "499", "500", "501", "502", "503", "504", "505", "507", "511", "520", "599", "600", "799", "999"} {
		all["status-"+status] = odd{"HTTP/1.1 " + status + " As The Server Says\r\n" + five, false}
	}
	return all
}

func oddInterims() map[string]odd {
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
	return map[string]odd{
		"interim-100":       {"HTTP/1.1 100 Continue\r\n\r\n" + ok + five, false},
		"interim-102":       {"HTTP/1.1 102 Processing\r\n\r\n" + ok + five, false},
		"interim-103":       {hints + ok + five, false},
		"interim-103-twice": {hints + hints + ok + five, false},
		"interim-199":       {"HTTP/1.1 199 Odd\r\n\r\n" + ok + five, false},
		"interim-100-twice": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok + five, false},
		"interim-101":       {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n", true},
	}
}

func oddHeaders() map[string]odd {
	all := map[string]odd{
		"header-long":        {ok + "X-Long: " + strings.Repeat("x", 50<<10) + "\r\n" + five, false},
		"header-200k":        {ok + "X-Long: " + strings.Repeat("x", 200<<10) + "\r\n" + five, false},
		"header-1000k":       {ok + "X-Long: " + strings.Repeat("x", 1000<<10) + "\r\n" + five, false},
		"headers-900":        {ok + strings.Repeat("X-Many: y\r\n", 900) + five, false},
		"headers-5000":       {ok + strings.Repeat("X-Many: y\r\n", 5000) + five, false},
		"header-bare-lf":     {"HTTP/1.1 200 OK\nX-A: b\nContent-Length: 5\n\nhello", false},
		"header-cookies":     {ok + "Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nSet-Cookie: a=1\r\n" + five, false},
		"header-challenges":  {"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: Negotiate\r\n" + five, false},
		"header-keep-alive":  {ok + "Connection: keep-alive\r\nKeep-Alive: timeout=5, max=100\r\n" + five, false},
		"header-connection":  {ok + "Connection: X-Hop\r\nX-Hop: 1\r\n" + five, false},
		"header-close":       {ok + "Connection: close\r\n" + five, true},
		"header-upgrade":     {ok + "Connection: Upgrade\r\nUpgrade: h2,h2c\r\n" + five, false},
		"header-upgrade-426": {"HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + five, false},
		"header-trailer":     {ok + "Trailer: Sum\r\n" + five, false},
		"header-no-date":     {ok + five, false},
		"header-two-dates":   {ok + "Date: Mon, 01 Jan 2001 00:00:00 GMT\r\nDate: odd\r\n" + five, false},
		"header-case":        {ok + "X-mIxEd-cASE: 1\r\nETag: \"1\"\r\n" + five, false},
	}
	for name, line := range map[string]string{
		"empty": "X-Empty:", "underscore": "x_under_score: 1", "utf8": "X-Name: é", "latin1": "X-Name: \xe9", "tab": "X-Tab: a\tb",
		"nul": "X-Nul: a\x00b", "cr": "X-CR: a\rb", "fold": "X-Fold: a\r\n b", "space-before-colon": "X-Space : a", "no-colon": "X-No-Colon",
		"no-name": ": a", "space-in-name": "X Space: a", "comma": "X-Comma: a, b", "twice": "X-Twice: a\r\nX-Twice: b", "control": "X-Control: a\x01b",
		"quoted": `X-Quoted: "a, b"`, "server": "Server: odd/1.0", "via": "Via: 1.1 odd", "alt-svc": `Alt-Svc: h3=":443"`, "proxy-connection": "Proxy-Connection: close",
		"envoy-time": "x-envoy-upstream-service-time: 5", "envoy-degraded": "x-envoy-degraded: 1", "envoy-health": "x-envoy-immediate-health-check-fail: 1",
		"envoy-ratelimited": "x-envoy-ratelimited: 1", "envoy-overloaded": "x-envoy-overloaded: 1", "envoy-attempts": "x-envoy-attempt-count: 7",
		"request-id": "x-request-id: 7", "grpc-status": "grpc-status: 5", "encoding": "Content-Encoding: gzip", "location-utf8": "Location: /é", "location": "Location: http://elsewhere/",
		"forwarded-proto": "x-forwarded-proto: https", "sd-destination": "x-sd-destination: 1.2.3.4:5", "sd-routed": "sd-routed: odd", "sd-reason": "sd-reason: odd",
	} {
		all["header-"+name] = odd{ok + line + "\r\n" + five, false}
	}
	return all
}

func oddEnds() map[string]odd {
	return map[string]odd{
		"two-at-once":     {ok + five + ok + five, false},
		"closed-unsaid":   {ok + five, true},
		"only-a-line":     {"HTTP/1.1 200 OK\r\n", true},
		"crlf-before":     {"\r\n" + ok + five, false},
		"space-in-status": {"HTTP/1.1  200 OK\r\n" + five, true},
	}
}

// answered returns cases that request each odd response, with GET, with HEAD, and as HTTP/1.0.
func answered() map[string]h1 {
	all := map[string]h1{}
	for name := range oddAnswers() {
		c := h1{send: "GET /answer/" + name + " HTTP/1.1\r\nHost: app\r\n{key}\r\n", exact: name == "header-case"}
		all["answer-"+name] = c
		if strings.HasPrefix(name, "status-4") || name == "reason-own" {
			c.reason = true
			all["reason-"+name] = c
		}
	}
	for _, name := range []string{"plain", "chunks", "to-the-end", "header-close", "chunks-with-trailers", "interim-103", "length-zero"} {
		all["answer-head-"+name] = h1{send: "HEAD /answer/" + name + " HTTP/1.1\r\nHost: app\r\n{key}\r\n", method: "HEAD"}
		all["answer-old-"+name] = h1{send: "GET /answer/" + name + " HTTP/1.0\r\nHost: app\r\n{key}\r\n"}
		all["answer-old-kept-"+name] = h1{send: "GET /answer/" + name + " HTTP/1.0\r\nHost: app\r\nConnection: keep-alive\r\n{key}\r\n"}
		all["answer-post-"+name] = h1{send: "POST /answer/" + name + " HTTP/1.1\r\nHost: app\r\n{key}Content-Length: 5\r\n\r\nhello"}
	}
	return all
}
