// Package attacks has what attackers do with a connection to a listener.
package attacks

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
)

// Attack is what an attacker does with a connection, until the server ends it or the
// attack ends, which closes it. Its name is for the table.
type Attack struct {
	Name string
	Do   func(ctx context.Context, c net.Conn)
}

// The attacks that any listener may meet.
var (
	Silent = Attack{"silent", func(_ context.Context, c net.Conn) { drain(c) }}
	// HalfTLS begins a handshake, and leaves it at that.
	HalfTLS = Attack{"half a handshake", func(_ context.Context, c net.Conn) { sendAndDrain(c, []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}) }}
	// SlowTLS finishes the handshake, and then sends a head a byte at a time.
	SlowTLS = SlowAs()
	// Forged shows tokens that look like a pod's.
	Forged = guesses("forged tokens", "GET /v1/units/none/none/assignment HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", forgery)
	// ForgedKeys shows API keys of a valid length.
	ForgedKeys = guesses("forged keys", "GET / HTTP/1.1\r\nHost: web.shop.svc\r\nsignadot-cluster: shared-0\r\nsignadot-api-key: %s\r\n\r\n",
		func() string { return rand.Text() + rand.Text() })
	// ForgedAPIKeys shows them to a REST API.
	ForgedAPIKeys = guesses("forged keys of the API", "GET /api/v2/orgs/ HTTP/1.1\r\nHost: a\r\nsignadot-api-key: %s\r\n\r\n", func() string { return rand.Text() + rand.Text() })
	// ForgedPreviewKeys shows them to a preview, and Preflights needs none.
	ForgedPreviewKeys = guesses("forged keys of previews", "GET / HTTP/1.1\r\nHost: "+Preview+"\r\nsignadot-api-key: %s\r\n\r\n", func() string { return rand.Text() + rand.Text() })
	Preflights        = guesses("preflights", "OPTIONS /%s HTTP/1.1\r\nHost: "+Preview+"\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n", rand.Text)
	SlowHead          = Attack{"slow heads", func(ctx context.Context, c net.Conn) { trickle(ctx, c, slowly) }}
	Junk              = Attack{"junk", func(_ context.Context, c net.Conn) {
		noise := make([]byte, 4<<10)
		_, _ = rand.Read(noise) // never fails
		sendAndDrain(c, noise)
	}}
)

// guesses shows secrets, each another one, as fast as they are refused.
func guesses(name, request string, secret func() string) Attack {
	return Attack{name, func(ctx context.Context, c net.Conn) {
		t := tls.Client(c, OverTLS())
		answers := bufio.NewReader(t)
		for ctx.Err() == nil {
			if _, err := fmt.Fprintf(t, request, secret()); err != nil {
				return
			}
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				return
			}
			if drain(answer.Body); answer.Body.Close() != nil {
				return
			}
		}
	}}
}

// SlowAs finishes the handshake as one that speaks these protocols, and then sends a head a byte at
// a time.
func SlowAs(protocols ...string) Attack {
	return Attack{strings.Join(append([]string{"slow", AfterHandshake}, protocols...), " "), func(ctx context.Context, c net.Conn) {
		trickle(ctx, tls.Client(c, OverTLS(protocols...)), slowly)
	}}
}

// AfterHandshake is in the names of attacks that speak TLS.
const AfterHandshake = "after a handshake"

// AfterTLS makes an attack once the handshake is done, as one that speaks these protocols.
func AfterTLS(a Attack, protocols ...string) Attack {
	return Attack{a.Name + " " + AfterHandshake, func(ctx context.Context, c net.Conn) { a.Do(ctx, tls.Client(c, OverTLS(protocols...))) }}
}

// The attacks that a server of gRPC meets too: connections that send a greeting alone, and that
// open streams which they leave alone.
var (
	Greetings    = Attack{"greetings", func(_ context.Context, c net.Conn) { sendAndDrain(c, greeting()) }}
	StreamsAlone = Attack{"streams left alone", func(_ context.Context, c net.Conn) {
		all := greeting()
		for n := range 200 {
			all = append(all, openStream(uint32(2*n+1))...)
		}
		sendAndDrain(c, all)
	}}
	// GRPC are on a server that uses plaintext, TLSGRPC on one that requires TLS.
	GRPC    = []Attack{Silent, HalfTLS, Junk, Greetings, StreamsAlone}
	TLSGRPC = []Attack{Silent, HalfTLS, Junk, Greetings, AfterTLS(Greetings, "h2"), AfterTLS(StreamsAlone, "h2")}
)

// slowly is a head that never ends.
const slowly = "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "

// trickle sends a text and then a byte each half second.
func trickle(ctx context.Context, c net.Conn, text string) {
	defer c.Close()
	_, err := io.WriteString(c, text)
	for err == nil {
		if err = wait.For(ctx, 500*time.Millisecond); err == nil {
			_, err = c.Write([]byte("a"))
		}
	}
}

// Unread returns an attack that requests a path repeatedly, and reads nothing of the responses.
func Unread(path string) Attack {
	return Attack{"unread " + path, func(ctx context.Context, c net.Conn) {
		ask := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
		if _, err := c.Write(bytes.Repeat(ask, 4)); err == nil {
			hold(ctx, c)
		}
	}}
}

// Follows reads the log for ever, as fast as it comes.
var Follows = Attack{"readers of the log", func(_ context.Context, c net.Conn) {
	sendAndDrain(c, []byte("GET /api/switchyard/v1/log?follow=true HTTP/1.1\r\nHost: a\r\n\r\n"))
}}

// Waits waits for what does not come.
var Waits = Attack{"waits", func(ctx context.Context, c net.Conn) {
	conn, err := grpc.NewClient("passthrough:///attacked", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return c, nil }))
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = routingv1.NewRoutingClient(conn).Wait(ctx, &routingv1.WaitRequest{TimeoutSeconds: 600}) // however it is answered
	hold(ctx, c)
}}

// StrangeClients greet the bus as its clients do, with an invalid token: they read its greeting,
// and speak TLS from then on.
var StrangeClients = Attack{"tokens that are none", func(_ context.Context, c net.Conn) {
	if _, err := bufio.NewReader(c).ReadSlice('\n'); err != nil {
		return
	}
	sendAndDrain(tls.Client(c, OverTLS()), []byte("CONNECT {\"auth_token\":\"a.b.c\",\"verbose\":false,\"pedantic\":false}\r\nPING\r\n"))
}}

// sendAndDrain sends bytes once and then reads until the server closes the connection.
func sendAndDrain(c net.Conn, what []byte) {
	if _, err := c.Write(what); err == nil {
		drain(c)
	}
}

func drain(from io.Reader) { _, _ = io.Copy(io.Discard, from) } // until it is closed, by either

// forgery returns a token that has everything but a signature of the API server.
func forgery() string {
	part := base64.RawURLEncoding.EncodeToString
	signature := make([]byte, 256)
	_, _ = rand.Read(signature) // never fails
	claims := fmt.Sprintf(`{"aud":[%q],"exp":4102444800,"iss":"https://kubernetes.default.svc.cluster.local","sub":"system:serviceaccount:hotrod:default"}`, iocontext.Audience)
	return part([]byte(`{"alg":"RS256","kid":"none"}`)) + "." + part([]byte(claims)) + "." + part(signature)
}

// hold waits until the server has closed its side, without reading, or ctx ends.
func hold(ctx context.Context, c net.Conn) {
	for traffic.Alive(c) && ctx.Err() == nil {
		_ = wait.For(ctx, 500*time.Millisecond)
	}
}

// greeting is how a client of HTTP/2 begins.
func greeting() []byte {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	_ = http2.NewFramer(&b, nil).WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) // into memory
	return b.Bytes()
}

// openStream is the head of a call that is never made.
func openStream(id uint32) []byte {
	var b bytes.Buffer
	// Two fields of the static table: POST, and the path "/"; the rest is missing.
	block := []byte{0x83, 0x84, 0x86}
	_ = http2.NewFramer(&b, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}) // into memory
	return b.Bytes()
}

// Preview is the host of a preview.
const Preview = "web--shared-0.preview.example.net"

// OverTLS returns the TLS settings of a connection to a pod. Certificates name Services, and the address is a
// pod's address: so none is verified. Only the listener of previews reads the name of the server.
func OverTLS(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, ServerName: Preview}
}
