package linearizable

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
)

// These in the environment make a process the bus.
const (
	busStore   = "SWITCHYARD_LINEARIZABLE_STORE"
	busAddress = "SWITCHYARD_LINEARIZABLE_ADDRESS"
)

// serveBus is the process of the bus: it prints its address and serves until its
// input ends.
func serveBus(store, address string) int {
	s, err := embedded.Start(embedded.Config{
		StoreDir: store, Listen: address, Logger: slog.New(slog.DiscardHandler),
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
	if err != nil {
		fmt.Fprintln(os.Stderr, "bus:", err)
		return 1
	}
	fmt.Println(s.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test, however that ends
	s.Close()
	return 0
}

// bus is an event bus in a process of its own, always at the same address.
type bus struct {
	t       *testing.T
	store   string
	address string
	cmd     *exec.Cmd
	input   io.Closer
}

func startBus(t *testing.T) *bus {
	t.Helper()
	b := &bus{t: t, store: t.TempDir() + "/store", address: "127.0.0.1:0"}
	b.start()
	t.Cleanup(b.kill)
	return b
}

// start starts the process and waits until it listens.
func (b *bus) start() {
	self, err := os.Executable()
	if err != nil {
		b.t.Error(err)
		return
	}
	b.cmd = exec.Command(self)
	b.cmd.Env = append(os.Environ(), busStore+"="+b.store, busAddress+"="+b.address)
	b.cmd.Stderr = os.Stderr
	input, err := b.cmd.StdinPipe()
	if err != nil {
		b.t.Error(err)
		return
	}
	output, err := b.cmd.StdoutPipe()
	if err != nil {
		b.t.Error(err)
		return
	}
	if err := b.cmd.Start(); err != nil {
		b.t.Error(err)
		return
	}
	b.input = input
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		b.t.Errorf("the bus does not start: %v", err)
		return
	}
	b.address = strings.TrimSpace(line)
}

// kill ends the process without a warning.
func (b *bus) kill() {
	if b.input == nil {
		return
	}
	_ = b.cmd.Process.Kill() // it may have ended
	_ = b.cmd.Wait()         // how does not matter
	_ = b.input.Close()
	b.input = nil
}

// pause stops the process for a while, as a disk does that does not answer.
func (b *bus) pause(d time.Duration) {
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		b.t.Error(err)
	}
	time.Sleep(d)
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		b.t.Error(err)
	}
}

// lose removes everything that the bus has kept. It is not running.
func (b *bus) lose() {
	if err := os.RemoveAll(b.store); err != nil {
		b.t.Error(err)
	}
}
