package wire

import "strings"

func bodies() map[string]h1 {
	return map[string]h1{
		"body-length":          {send: post("hello", "Content-Length: 5")},
		"body-length-0":        {send: post("", "Content-Length: 0")},
		"body-no-length":       {send: post("")},
		"body-large":           {send: post(strings.Repeat("x", 1<<20), "Content-Length: 1048576")},
		"body-get":             {send: ask("GET", "/", "Content-Length: 5") + "hello"},
		"body-then-request":    {send: post("hello", "Content-Length: 5") + ask("GET", "/second"), answers: 2},
		"body-expect":          {send: ask("POST", "/continue", "Expect: 100-continue", "Content-Length: 5"), then: "hello", answers: 1},
		"body-expect-at-once":  {send: ask("POST", "/continue", "Expect: 100-continue", "Content-Length: 5") + "hello"},
		"body-expect-no-body":  {send: ask("GET", "/continue", "Expect: 100-continue")},
		"body-expect-capitals": {send: ask("POST", "/continue", "Expect: 100-Continue", "Content-Length: 5") + "hello"},
		"body-expect-unread":   {send: ask("POST", "/answer/status-417", "Expect: 100-continue", "Content-Length: 5") + "hello"},
		"body-trailers":        {send: post("5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Two: 2\r\n\r\n", "Transfer-Encoding: chunked", "Trailer: X-Sum")},
		"body-trailers-unsaid": {send: post("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n", "Transfer-Encoding: chunked")},
		"body-trailers-length": {send: post("5\r\nhello\r\n0\r\nContent-Length: 1\r\n\r\n", "Transfer-Encoding: chunked"), status: true},
		"body-trailers-key":    {send: post("5\r\nhello\r\n0\r\nbaggage: sd-routing-key=other\r\n\r\n", "Transfer-Encoding: chunked")},
		"body-cut-off":         {send: post("hello", "Content-Length: 50"), status: true},
		"body-half":            {send: post("hello", "Content-Length: 5"), half: true},
		"body-cut-off-half":    {send: post("hello", "Content-Length: 50"), half: true, status: true},
	}
}

func chunks() map[string]h1 {
	all := map[string]h1{
		"chunks":              {send: post("5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked")},
		"chunks-many":         {send: post(strings.Repeat("1\r\nx\r\n", 5000)+"0\r\n\r\n", "Transfer-Encoding: chunked")},
		"chunks-none":         {send: post("0\r\n\r\n", "Transfer-Encoding: chunked")},
		"chunks-get":          {send: ask("GET", "/", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n"},
		"chunks-extension":    {send: post("5;a=b\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked")},
		"chunks-quoted":       {send: post("5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked")},
		"chunks-capitals":     {send: post("A\r\n0123456789\r\n0\r\n\r\n", "Transfer-Encoding: Chunked")},
		"chunks-zeros":        {send: post("0005\r\nhello\r\n0000\r\n\r\n", "Transfer-Encoding: chunked")},
		"chunks-then-request": {send: post("5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked") + ask("GET", "/second"), answers: 2},
	}
	for name, bytes := range map[string]string{
		"surplus": "5\r\nhelloXX\r\n0\r\n\r\n", "surplus-hidden": "5\r\nhello5\r\n0\r\n\r\n", "no-crlf": "5\r\nhello0\r\n\r\n", "lf": "5\nhello\n0\n\n", "lf-after-data": "5\r\nhello\n0\r\n\r\n", "cr-only": "5\rhello\r0\r\r",
		"size-odd": "x\r\nhello\r\n0\r\n\r\n", "size-0x": "0x5\r\nhello\r\n0\r\n\r\n", "size-plus": "+5\r\nhello\r\n0\r\n\r\n", "size-negative": "-5\r\nhello\r\n0\r\n\r\n", "size-empty": "\r\nhello\r\n0\r\n\r\n",
		"size-huge": "fffffffffffffffff\r\nhello\r\n0\r\n\r\n", "size-space": "5 \r\nhello\r\n0\r\n\r\n", "size-space-first": " 5\r\nhello\r\n0\r\n\r\n", "size-junk": "5 x\r\nhello\r\n0\r\n\r\n", "size-wrap": "10000000000000005\r\nhello\r\n0\r\n\r\n",
		"extension-lf": "5;a\nhello\r\n0\r\n\r\n", "extension-cr": "5;a\rb\r\nhello\r\n0\r\n\r\n", "end-short": "5\r\nhello\r\n0\r\n", "trailer-no-colon": "5\r\nhello\r\n0\r\nX-A\r\n\r\n", "trailer-cr": "5\r\nhello\r\n0\r\nX-A: a\rb\r\n\r\n",
		"extension-long": "5;" + strings.Repeat("a", 20<<10) + "\r\nhello\r\n0\r\n\r\n",
	} {
		all["chunks-malformed-"+name] = h1{send: post(bytes, "Transfer-Encoding: chunked"), status: true}
	}
	return all
}

func lengths() map[string]h1 {
	all := map[string]h1{}
	for name, lines := range map[string][]string{
		"twice": {"Content-Length: 5", "Content-Length: 5"}, "list": {"Content-Length: 5, 5"}, "zeros": {"Content-Length: 005"}, "different": {"Content-Length: 5", "Content-Length: 6"},
		"plus": {"Content-Length: +5"}, "negative": {"Content-Length: -5"}, "hex": {"Content-Length: 0x5"}, "words": {"Content-Length: five"}, "empty": {"Content-Length:"}, "space": {"Content-Length: 5 5"},
		"decimal": {"Content-Length: 5.0"}, "huge": {"Content-Length: 99999999999999999999"}, "padded": {"Content-Length:    5   "},
	} {
		all["length-"+name] = h1{send: post("hello", lines...), status: true}
	}
	for name, lines := range map[string][]string{
		"length-first": {"Content-Length: 5", "Transfer-Encoding: chunked"}, "length-last": {"Transfer-Encoding: chunked", "Content-Length: 5"}, "identity": {"Transfer-Encoding: identity"},
		"gzip": {"Transfer-Encoding: gzip, chunked"}, "gzip-only": {"Transfer-Encoding: gzip"}, "chunked-twice": {"Transfer-Encoding: chunked, chunked"}, "chunked-lines": {"Transfer-Encoding: chunked", "Transfer-Encoding: chunked"},
		"odd": {"Transfer-Encoding: xchunked"}, "chunked-first": {"Transfer-Encoding: chunked, identity"}, "quoted": {`Transfer-Encoding: "chunked"`}, "empty": {"Transfer-Encoding:"}, "vt": {"Transfer-Encoding: \x0bchunked"},
		"space-before-colon": {"Transfer-Encoding : chunked"}, "parameter": {"Transfer-Encoding: chunked;a=b"},
	} {
		all["coding-"+name] = h1{send: post("5\r\nhello\r\n0\r\n\r\n", lines...), status: true}
	}
	return all
}

func connections() map[string]h1 {
	return map[string]h1{
		"close":             {send: ask("GET", "/", "Connection: close")},
		"close-capitals":    {send: ask("GET", "/", "Connection: Close")},
		"close-list":        {send: ask("GET", "/", "Connection: keep-alive, close")},
		"keep-alive":        {send: ask("GET", "/", "Connection: keep-alive")},
		"half":              {send: ask("GET", "/"), half: true},
		"half-close":        {send: ask("GET", "/", "Connection: close"), half: true},
		"half-old":          {send: "GET / HTTP/1.0\r\nHost: app\r\n{key}\r\n", half: true},
		"half-pipelined":    {send: ask("GET", "/a") + ask("GET", "/b", "Connection: close"), answers: 2, half: true},
		"half-nothing":      {half: true},
		"pipelined":         {send: ask("GET", "/a") + ask("GET", "/b") + ask("GET", "/c"), answers: 3},
		"pipelined-mixed":   {send: ask("GET", "/a") + post("hello", "Content-Length: 5") + ask("OPTIONS", "/c"), answers: 3},
		"pipelined-20":      {send: strings.Repeat(ask("GET", "/a"), 20), answers: 20},
		"pipelined-bad":     {send: ask("GET", "/a") + "nonsense\r\n\r\n", answers: 2, status: true},
		"pipelined-404":     {send: strings.Repeat(ask("GET", "/answer/status-404"), 5), answers: 5},
		"pipelined-closing": {send: ask("GET", "/a", "Connection: close") + ask("GET", "/b")},
		"nonsense":          {send: "nonsense\r\n\r\n", status: true},
		"tls-to-plain":      {send: "\x16\x03\x01\x00\x05hello", status: true},
	}
}
