package listeners

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"

	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/hostile/jobrunner"
	"switchyard.dev/tests/hostile/questions"
	"switchyard.dev/tools/wait"
)

// asks asks a question over gRPC in TLS.
func asks(ask questions.Question) func(*World, *Listener) (call, error) {
	return func(w *World, l *Listener) (call, error) {
		return w.ask(l, credentials.NewTLS(attacks.OverTLS()), ask), nil
	}
}

func (w *World) ask(l *Listener, as credentials.TransportCredentials, ask questions.Question) call {
	return func(ctx context.Context) error {
		conn, err := dial(w.address(l, 0), as)
		if err != nil {
			return err
		}
		defer conn.Close()
		return questions.Patient(ask)(ctx, conn)
	}
}

// callRunner calls a runner as the Job controller does.
func callRunner(w *World, l *Listener) (call, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	as, ask, err := jobrunner.Controller(ctx, w.client, manager.Namespace, string(w.pods[runner.Name][0].UID))
	return w.ask(l, as, ask), err
}

// greets sends a greeting to a listener, and checks the beginning of the answer. It retries when
// the connection is reset, as clients do: an address may begin fewer a second than begin here,
// and neither protocol has an error for that so early.
func greets(says, answer string) func(*World, *Listener) (call, error) {
	return func(w *World, l *Listener) (call, error) {
		return func(ctx context.Context) error {
			for {
				err := greet(ctx, w.address(l, 0), says, answer)
				if !errors.Is(err, syscall.ECONNRESET) {
					return err
				}
				if late := wait.For(ctx, 200*time.Millisecond); late != nil {
					return fmt.Errorf("%w: %w", late, err)
				}
			}
		}, nil
	}
}

func greet(ctx context.Context, address, says, answer string) error {
	c, err := from(honestAddress, patience).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, says); err != nil {
		return err
	}
	got := make([]byte, len(answer))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !strings.HasPrefix(string(got), answer) {
		return fmt.Errorf("it answers %q", got)
	}
	return nil
}

// shakeHands makes a connection over TLS that speaks a protocol.
func shakeHands(protocol string) func(*World, *Listener) (call, error) {
	return func(w *World, l *Listener) (call, error) {
		return func(ctx context.Context) error {
			c, err := from(honestAddress, patience).DialContext(ctx, "tcp", w.address(l, 0))
			if err != nil {
				return err
			}
			defer c.Close()
			return tls.Client(c, attacks.OverTLS(protocol)).HandshakeContext(ctx)
		}, nil
	}
}
