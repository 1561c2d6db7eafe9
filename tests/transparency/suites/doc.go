// Package suites has the suites of tests/transparency that need more than bytes of
// HTTP: each is a suite.Suite.
//
//	Interop    every case of gRPC's interop client              interop.go
//	H2Spec     every case of h2spec                             h2spec.go
//	WebSocket  messages, close codes, pings, refusals           websocket.go
//	Bodies     large bodies up and down                         bodies.go
//	Waiting    server-sent events, long polls                   waiting.go
//	Redis      commands, pipelines, subscriptions               redis.go
//	TCP        idle, silent and half-closed connections         tcp.go
//	Keys       a connection on which only some requests have a
//	           key, while its route comes and goes              keys.go
package suites
