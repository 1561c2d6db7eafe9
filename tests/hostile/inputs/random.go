// Package inputs sends random inputs to a listener.
package inputs

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tunnels/carrier"
)

// Random inputs go to a listener from this many connections at once, each at most so long.
const (
	randomAtOnce = 64
	randomBytes  = 4 << 10
	// endWithin is within what time the server is to end a connection of which it has all.
	endWithin = 20 * time.Second
)

// beginnings are what random bytes follow: how clients of one protocol or another begin.
var beginnings = []string{
	"", "\x05", "\x05\x01\x00", "\x05\x01\x02", "\x05\x01\x02\x01", "SSH-2.0-x\r\n", "\x16\x03\x01\x02\x00\x01\x00",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /metrics HTTP/1.1\r\n", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\n\r\n",
}

// Random configures random inputs.
type Random struct {
	N int
	// Address is their destination, Seed that of the random numbers.
	Address string
	Seed    uint64
	// Secure: half of them go through a handshake of TLS, as one of Protocols.
	Secure bool
}

// protocols are the protocols over TLS: that of sessions, and gRPC.
var protocols = []string{carrier.Protocol, "h2"}

// Ends counts how connections with random inputs ended.
type Ends struct {
	// Answered received a response before the connection was closed, Silent were closed without one;
	// Left were not closed in time, Refused never connected.
	Answered, Silent, Left, Refused int
}

// Send sends random inputs, and returns when the connections of all have ended. from returns what dials for one of them.
func (in Random) Send(from func(*rand.Rand) *net.Dialer, ends *Ends) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for one := range randomAtOnce {
		all.Go(func() {
			r := rand.New(rand.NewPCG(in.Seed, uint64(one)))
			for n := one; n < in.N; n += randomAtOnce {
				to := in.once(r, from(r))
				mu.Lock()
				*to(ends)++
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// once sends one input and returns what to count it as.
func (in Random) once(r *rand.Rand, dialer *net.Dialer) func(*Ends) *int {
	c, err := dialer.Dial("tcp", in.Address)
	if err != nil {
		return func(e *Ends) *int { return &e.Refused }
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(endWithin)) // a connection that is there has deadlines
	through := c
	if in.Secure && r.IntN(2) == 0 {
		t := tls.Client(c, attacks.OverTLS(protocols[r.IntN(len(protocols))]))
		if t.Handshake() == nil {
			through = t
		}
	}
	junk := make([]byte, r.IntN(randomBytes))
	for i := range junk {
		junk[i] = byte(r.Uint32())
	}
	_, _ = through.Write(append([]byte(beginnings[r.IntN(len(beginnings))]), junk...))
	if half, is := through.(interface{ CloseWrite() error }); is {
		_ = half.CloseWrite() // the server may have ended it
	}
	got, err := io.Copy(io.Discard, through)
	timeout := net.Error(nil)
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return func(e *Ends) *int { return &e.Left }
	case got > 0:
		return func(e *Ends) *int { return &e.Answered }
	}
	return func(e *Ends) *int { return &e.Silent }
}
