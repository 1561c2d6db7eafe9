// Package life is a manager that can die as a process does, though it runs in this one: it
// reaches the API server and the log only through a wire.Gate.
package life

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"switchyard.dev/eventbus"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/sweep/wire"
)

// Life is one process of the manager.
type Life struct {
	Gate *wire.Gate
	// Main is what runs.
	Main *manager.Main
	end  context.CancelFunc
	done chan struct{}
}

// Begin starts a manager behind a gate. One that the gate kills as it begins has ended, and has no Main; so has one that exits because
// the answer to a write is lost then, as Kubernetes starts it again.
// Settings for several managers in one process are added to
// the Config.
func Begin(ctx context.Context, gate *wire.Gate, access *rest.Config, log eventbus.Log, c manager.Config) (*Life, error) {
	l := &Life{Gate: gate, done: make(chan struct{})}
	c.REST, c.Log = rest.CopyConfig(access), gate.Log(log)
	c.REST.ContentType, c.REST.AcceptContentTypes = "application/json", "application/json"
	c.REST.Wrap(gate.Wrap)
	c.WithoutWebhook, c.SeveralInProcess, c.MetricsAddress, c.HealthAddress = true, true, "0", "0"
	ctx, l.end = context.WithCancel(ctx)
	var err error
	if l.Main, err = manager.New(ctx, c); err != nil {
		l.end()
		close(l.done)
		if errors.Is(err, wire.ErrUnanswered) {
			gate.Kill()
		}
		if gate.IsDead() {
			return l, nil
		}
		return nil, fmt.Errorf("begin a manager: %w", err)
	}
	go func() {
		defer close(l.done)
		// Its end is of no interest once it is dead; before that, the wait for the end state
		// times out.
		if err := l.Main.Run(ctx); err != nil && ctx.Err() == nil && c.Logger != nil {
			c.Logger.Error("a manager ended by itself", "error", err)
		}
	}()
	return l, nil
}

// Kill ends a manager as a lost node would.
func (l *Life) Kill() {
	l.Gate.Kill()
	l.Stop()
}

// Stop ends a manager in order.
func (l *Life) Stop() {
	l.End()
	<-l.done
}

// Ended reports whether a manager has ended, in whatever way.
func (l *Life) Ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// End cancels a manager, and does not wait for it.
func (l *Life) End() { l.end() }

// Quiet makes the libraries under managers log to a logger, which is one for the
// process.
func Quiet(logger *slog.Logger) {
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	klog.SetSlogLogger(logger)
}
