package transparency

import (
	"fmt"
	"os/exec"
	"time"

	"switchyard.dev/tests/transparency/rig"
	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/tests/transparency/suites"
	"switchyard.dev/tests/transparency/wire"
	"switchyard.dev/tools/apps"
)

// Size is the extent of a run.
type Size struct {
	// Body is the most bytes of a body, and Message of a websocket's message.
	Body, Message int
	// Idle is how long connections are idle, and Poll how long an answer is waited for.
	Idle, Poll time.Duration
	// Bytes: exchanges written out in bytes are run too.
	Bytes bool
	// Alternate is how long a connection has a key now and then.
	Alternate time.Duration
}

// Short and Full are the sizes of the test and of the command. Envoy's own deadline for
// a stream without bytes is five minutes. The short one has no bytes, which the tests of
// sidecars/devmesh/keeper have.
var (
	Short = Size{Body: 4 << 20, Message: 16 << 20, Idle: 2 * time.Second, Poll: 2 * time.Second, Alternate: 3 * time.Second}
	Full  = Size{Body: largest, Message: 16 << 20, Idle: 330 * time.Second, Poll: 330 * time.Second, Bytes: true, Alternate: 30 * time.Second}
)

// trial is an application that a suite meets.
type trial struct {
	app   rig.App
	suite suite.Suite
	// keyless: the suite has no way to send a key, or the protocol has none.
	keyless bool
	// stock: it is to be no worse than behind a stock Envoy.
	stock bool
}

// plan returns all trials, the longest first.
func plan(a all, its apps.Apps, size Size) []trial {
	h1, h2 := []string{"h1"}, []string{"h2"}
	poll := int(size.Poll.Seconds())
	compiled := func(name string) suites.Program {
		return func(args ...string) *exec.Cmd { return its.Go(name, args...) }
	}
	trials := []trial{
		{app: a.httpbin, suite: suites.Waiting{
			Protocol: "h1", Events: "/sse?count=5&duration=2s", Slow: "/drip?duration=5&numbytes=50",
			Late: []string{fmt.Sprintf("/drip?delay=%d&duration=1&numbytes=1", poll), "/drip?duration=1&numbytes=5&delay=1"},
		}},
		{app: a.podinfo, suite: suites.Waiting{Protocol: "h2", Slow: "/delay/5", Late: []string{fmt.Sprintf("/delay/%d", poll), "/chunked/1"}}},
		{app: a.redis, suite: suites.Redis{Idle: size.Idle}, keyless: true},
		{app: a.echo, suite: suites.TCP{Idle: size.Idle}, keyless: true},
		{app: a.interop, suite: suites.Interop{Client: compiled("client")}},
		{app: a.podinfo, suite: suites.H2Spec{Program: compiled("h2spec")}, keyless: true, stock: true},
		{app: a.nginx2, suite: suites.H2Spec{Program: compiled("h2spec")}, keyless: true, stock: true},
		{app: a.nghttpd, suite: suites.H2Spec{Program: compiled("h2spec")}, keyless: true, stock: true},
		{app: a.httpbin, suite: suites.WebSocket{Path: "/websocket/echo", Largest: size.Message}},
		{app: a.podinfo, suite: suites.WebSocket{Path: "/ws/echo", Words: true, Largest: size.Message}},
		{app: a.podinfo, suite: suites.Bodies{Echo: "/echo", Protocols: append(h1, h2...), Largest: size.Body}},
		{app: a.httpbin, suite: suites.Bodies{
			Protocols: h1, Largest: size.Body,
			Down: []string{fmt.Sprintf("/bytes/%d?seed=1", size.Body), fmt.Sprintf("/stream-bytes/%d?seed=1", size.Body), "/range/100000", "/image/png", "/json", "/encoding/utf8", "/status/418", "/redirect/1"},
		}},
		{app: a.nghttpd, suite: suites.Bodies{Echo: "/", Protocols: h2, Largest: size.Body}},
		{app: a.nginx, suite: suites.Bodies{Protocols: h1, Down: []string{"/", "/small", "/large", "/absent"}}},
		{app: a.nginx2, suite: suites.Bodies{Protocols: h2, Down: []string{"/", "/small", "/large", "/absent"}}},
	}
	if size.Bytes {
		trials = append(trials, trial{app: a.odd, suite: wire.Suite{}}, trial{app: a.plain, suite: wire.Suite{}})
	}
	return trials
}
