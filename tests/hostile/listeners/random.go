package listeners

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/process"
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

// Inputs configures random inputs.
type Inputs struct {
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

// Randomly sends random inputs, and returns when the connections of all have ended.
func (c *Crowd) Randomly(in Inputs, ends *Ends) error {
	var mu sync.Mutex
	var all sync.WaitGroup
	for one := range randomAtOnce {
		all.Go(func() {
			r := rand.New(rand.NewPCG(in.Seed, uint64(one)))
			for n := one; n < in.N; n += randomAtOnce {
				to := in.once(r, from(hostileAddress(r.IntN(hostileAddresses)), 10*time.Second))
				mu.Lock()
				*to(ends)++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return nil
}

// once sends one input and returns what to count it as.
func (in Inputs) once(r *rand.Rand, dialer *net.Dialer) func(*Ends) *int {
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

// random reports whether random inputs go to a listener: code of this project parses its input.
func (l *Listener) random() bool { return l.Program == tunnelAPI || l.Program == tunnelProxy }

// secure reports whether it speaks TLS.
func (l *Listener) secure() bool {
	return slices.ContainsFunc(l.attacks, func(a attacks.Attack) bool { return strings.Contains(a.Name, attacks.AfterHandshake) })
}

// randomly sends a listener random inputs while it is called honestly. The attackers of before
// have left.
func (w *World) randomly(ctx context.Context, f *Finding, o Options) (err error) {
	l := f.Listener
	if o.Random == 0 || !l.random() {
		return nil
	}
	honest, err := l.honest(w, l)
	if err != nil {
		return err
	}
	crowd, err := process.Start(Role)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, crowd.Close()) }()
	before, err := w.look(ctx, l.Program)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	seen := Finding{Listener: l}
	var wrong error
	watch.Go(func() { wrong = w.watch(watching, l, &seen, crowd) })
	sent := make(chan error, 1)
	go func() {
		sent <- crowd.Call("Randomly", Inputs{N: o.Random, Address: w.address(l, 0), Seed: uint64(l.Port), Secure: l.secure()}, &f.Ends)
	}()
	f.Honest = measure(ctx, honest, o.For)
	err = <-sent
	stop()
	watch.Wait()
	after, lost := w.look(ctx, l.Program)
	f.Most, f.Restarts = max(f.Most, seen.Most), f.Restarts+after.restarts-before.restarts
	return errors.Join(err, wrong, lost)
}

// printRandom prints what became of random inputs.
func (f Finding) printRandom(out io.Writer, name string) {
	e := f.Ends
	all := e.Answered + e.Silent + e.Left + e.Refused
	if all == 0 {
		return
	}
	if f.Honest.Why != nil {
		fmt.Fprintf(out, "%s, beside random inputs: an honest call: %v\n", f.Listener, f.Honest.Why)
	}
	figures.Text(out, name+"_RANDOM", e.Answered+e.Silent, "inputs_ended",
		fmt.Sprintf("all of %d, of which %d were answered first; %d were not ended and %d not connected; %d honest calls of %d unserved", all, e.Answered, e.Left, e.Refused,
			f.Honest.Failed, f.Honest.Failed+f.Honest.Served),
		e.Answered+e.Silent == all && f.Honest.Failed == 0)
}
