package listeners

import (
	"context"
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
	"switchyard.dev/tests/hostile/inputs"
	"switchyard.dev/tests/process"
)

// Randomly sends random inputs, and returns when the connections of all have ended.
func (c *Crowd) Randomly(in inputs.Random, ends *inputs.Ends) error {
	in.Send(func(r *rand.Rand) *net.Dialer { return from(hostileAddress(r.IntN(hostileAddresses)), 10*time.Second) }, ends)
	return nil
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
		sent <- crowd.Call("Randomly", inputs.Random{N: o.Random, Address: w.address(l, 0), Seed: uint64(l.Port), Secure: l.secure()}, &f.Ends)
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
