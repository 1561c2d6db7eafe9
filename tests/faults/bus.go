package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/tests/program"
)

// BusConfig is what a bus under test runs with.
type BusConfig struct {
	// Store is the directory of its log.
	Store string
	// Unsynced lets it acknowledge events before they are on disk.
	Unsynced bool
	// Listen is its address; empty for a free port of loopback.
	Listen string
	// StreamBytes bounds the log; 24 MiB when it is 0.
	StreamBytes int64
}

// Status is the status that a bus reports.
type Status struct {
	Addr string
	// Ready, or why not.
	Ready  bool
	Reason string
	// Witnessed is the sequence that the witness holds.
	Witnessed uint64
	// MovedAside counts the damaged stores, Why is the reason for the last one.
	MovedAside uint64
	Damage     store.Damage
	Why        string
	// Unusable is why it did not start at all.
	Unusable string
}

// Bus is a bus under test, in a separate process.
type Bus struct {
	program     *program.Program
	conn        *nats.Conn // that startOpen made
	streamBytes int64

	mu      sync.Mutex
	status  Status
	changed chan struct{}
	// ended is closed when its last report before its end was read.
	ended chan struct{}
}

// busConfig in the environment makes a process the bus under test.
const busConfig = "SWITCHYARD_FAULTS_BUS"

// token is what clients present.
const token = "writer"

// serveBus is the process of a bus: it writes its status to stdout whenever that changes, and
// ends with a signal.
func serveBus(config string) int {
	var c BusConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	out := json.NewEncoder(os.Stdout)
	s, err := embedded.Start(embedded.Config{
		StoreDir: c.Store, Listen: c.Listen, Unsynced: c.Unsynced, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Authenticate: func(_ context.Context, presented string) (connect.Role, error) {
			if presented != token {
				return 0, errors.New("not one of us")
			}
			return connect.Writer, nil
		},
	})
	if err != nil {
		_ = out.Encode(Status{Unusable: err.Error()})
		return 1
	}
	defer s.Close()
	var last Status
	for ticker := time.NewTicker(2 * time.Millisecond); ; {
		if now := statusOf(s); now != last {
			last = now
			if out.Encode(now) != nil {
				return 1
			}
		}
		select {
		case <-ctx.Done():
			return 0
		case err := <-s.Failed():
			fmt.Fprintln(os.Stderr, "failed:", err)
			return 1
		case <-ticker.C:
		}
	}
}

func statusOf(s *embedded.Server) Status {
	status := Status{Addr: s.Addr().String(), Ready: true, Witnessed: s.Witnessed().Seq}
	if err := s.Ready(); err != nil {
		status.Ready, status.Reason = false, err.Error()
	}
	aside, last := s.MovedAside()
	status.MovedAside, status.Damage, status.Why = aside, last.Kind, last.Why
	return status
}

// StartBus starts a bus. Its log goes to the writer.
func StartBus(c BusConfig, log io.Writer) (*Bus, error) {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.StreamBytes == 0 {
		c.StreamBytes = streamBytes
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &Bus{streamBytes: c.StreamBytes, changed: make(chan struct{}), ended: make(chan struct{})}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), busConfig+"="+string(text))
	says, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = said, log
	b.program, err = program.Start("", "bus", cmd, nil)
	_ = said.Close() // the child has its own
	go b.follow(says)
	return b, err
}

// follow reads the reports of the bus until it ends.
func (b *Bus) follow(says io.ReadCloser) {
	defer close(b.ended)
	defer says.Close()
	for lines := bufio.NewScanner(says); lines.Scan(); {
		var s Status
		if json.Unmarshal(lines.Bytes(), &s) == nil {
			b.mu.Lock()
			b.status = s
			close(b.changed)
			b.changed = make(chan struct{})
			b.mu.Unlock()
		}
	}
}

// Status is the last report of the bus.
func (b *Bus) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

var errBusEnded = errors.New("the process of the bus has ended")

// Await waits until the status is as wanted.
func (b *Bus) Await(ctx context.Context, what string, wanted func(Status) bool) error {
	for {
		b.mu.Lock()
		status, changed := b.status, b.changed
		b.mu.Unlock()
		if wanted(status) {
			return nil
		}
		if status.Unusable != "" {
			return fmt.Errorf("the bus does not start: %s", status.Unusable)
		}
		select {
		case <-changed:
		case <-b.ended:
			return fmt.Errorf("wait until the bus %s: %w", what, errBusEnded)
		case <-ctx.Done():
			return fmt.Errorf("wait until the bus %s: %w; its status: %+v", what, ctx.Err(), status)
		}
	}
}

// AwaitReady waits until the bus is ready.
func (b *Bus) AwaitReady(ctx context.Context) error {
	return b.Await(ctx, "is ready", func(s Status) bool { return s.Ready })
}

// Kill ends the bus without warning.
func (b *Bus) Kill() {
	b.program.Kill()
	<-b.ended
	if b.conn != nil {
		b.conn.Close()
	}
}

// Stop ends the bus as a pod is ended.
func (b *Bus) Stop() {
	_ = b.program.Terminate(30 * time.Second) // how it ended shows in the store
	<-b.ended
}

// startOpen starts a bus, waits until it is ready, and opens its log for writing. Killing the bus
// closes that too.
func startOpen(ctx context.Context, c BusConfig, out io.Writer, scratch string) (b *Bus, log *jetstream.Log, err error) {
	if b, err = StartBus(c, out); err != nil {
		return nil, nil, err
	}
	if err = b.AwaitReady(ctx); err == nil {
		log, b.conn, err = b.Open(scratch)
	}
	if err != nil {
		b.Kill()
	}
	return b, log, err
}

// Open returns the log on the bus, opened for writing, and its connection.
func (b *Bus) Open(scratch string) (*jetstream.Log, *nats.Conn, error) {
	file := filepath.Join(scratch, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return nil, nil, err
	}
	return connect.Open(connect.Config{
		URL: "nats://" + b.Status().Addr, Role: connect.Writer, TokenFile: file, Logger: slog.New(slog.DiscardHandler),
	}, jetstream.Config{MaxBytes: b.streamBytes})
}

// streamBytes bounds the logs here, on small disks.
const streamBytes = 24 << 20
