package linearizable

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/tests/process"
)

// roleBus is the process of the bus.
const roleBus = "bus"

// Bus is that process, as the test calls it.
type Bus struct{}

// Serving says where it keeps the log and listens.
type Serving struct{ Store, Address string }

// Serve serves as long as the process lives, and returns the address.
func (Bus) Serve(o Serving, address *string) error {
	s, err := embedded.Start(embedded.Config{
		StoreDir: o.Store, Listen: o.Address, Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(_ context.Context, token string) (connect.Role, error) {
			switch token {
			case "writer":
				return connect.Writer, nil
			case "follower":
				return connect.Follower, nil
			}
			return 0, errors.New("unknown")
		},
	})
	if err == nil {
		*address = s.Addr().String()
	}
	return err
}

// bus is an event bus in a process of its own, always at the same address.
type bus struct {
	t       *testing.T
	serving Serving
	process *process.Process
}

func startBus(t *testing.T) *bus {
	t.Helper()
	b := &bus{t: t, serving: Serving{t.TempDir() + "/store", "127.0.0.1:0"}}
	b.start()
	t.Cleanup(b.kill)
	return b
}

// start starts the process and waits until it listens.
func (b *bus) start() {
	var err error
	if b.process, err = process.Start(roleBus); err == nil {
		err = b.process.Call("Serve", b.serving, &b.serving.Address)
	}
	if err != nil {
		b.t.Errorf("the bus does not start: %v", err)
	}
}

// kill ends the process without a warning.
func (b *bus) kill() {
	b.process.Kill()
	b.process = nil
}

// pause stops the process for a while, as a disk does that does not answer.
func (b *bus) pause(d time.Duration) {
	stopped := syscall.Kill(b.process.ID(), syscall.SIGSTOP)
	time.Sleep(d)
	if err := errors.Join(stopped, syscall.Kill(b.process.ID(), syscall.SIGCONT)); err != nil {
		b.t.Error(err)
	}
}

// lose removes everything that the bus has kept. It is not running.
func (b *bus) lose() {
	if err := os.RemoveAll(b.serving.Store); err != nil {
		b.t.Error(err)
	}
}
