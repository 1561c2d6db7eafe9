package jetstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/tools/wait"
)

// TestMain lets this test binary be the server too, as a process of its own
// that can be killed: when it is called with a directory and an address.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BUS_DIR"); dir != "" {
		serve(dir, os.Getenv("BUS_LISTEN"))
		return
	}
	os.Exit(m.Run())
}

func serve(dir, listen string) {
	s, err := embedded.Start(embedded.Config{StoreDir: dir, Listen: listen, Authenticate: byToken})
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	// The parent owns the other end of standard input; when it ends, so does this process.
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	s.Close()
}

func byToken(_ context.Context, token string) (connect.Role, error) {
	switch token {
	case "the writer":
		return connect.Writer, nil
	case "a follower":
		return connect.Follower, nil
	}
	return 0, errors.New("not one of us")
}

// bus is a server in a process of its own.
type bus struct {
	dir, listen string
	process     *exec.Cmd
}

func startBus(t *testing.T) *bus {
	t.Helper()
	// A port that was free a moment ago: it has to be the same after a crash.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bus{dir: t.TempDir(), listen: free.Addr().String()}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	t.Cleanup(func() { b.kill(t) })
	return b
}

func (b *bus) start(t *testing.T) {
	t.Helper()
	b.process = exec.Command(os.Args[0])
	b.process.Env = append(os.Environ(), "BUS_DIR="+filepath.Join(b.dir, "store"), "BUS_LISTEN="+b.listen)
	b.process.Stderr = os.Stderr
	if _, err := b.process.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := b.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.process.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the bus did not start: %s %v", line, err)
	}
}

// kill ends the process without warning (SIGKILL).
func (b *bus) kill(t *testing.T) {
	t.Helper()
	if err := b.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := b.process.Wait(); !strings.Contains(fmt.Sprint(err), "killed") {
		t.Errorf("the bus ended by itself: %v", err)
	}
}

func (b *bus) crash(t *testing.T) {
	t.Helper()
	b.kill(t)
	b.start(t)
}

func (b *bus) lose(t *testing.T) {
	t.Helper()
	b.kill(t)
	if err := os.RemoveAll(filepath.Join(b.dir, "store")); err != nil {
		t.Fatal(err)
	}
	b.start(t)
}

func (b *bus) dial(t *testing.T, role connect.Role) (*jetstream.Log, *nats.Conn) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(map[connect.Role]string{connect.Writer: "the writer", connect.Follower: "a follower"}[role]), 0o600); err != nil {
		t.Fatal(err)
	}
	log, conn, err := connect.Open(connect.Config{
		URL: "nats://" + b.listen, Role: role, Name: t.Name(), TokenFile: file, Logger: slog.New(slog.DiscardHandler),
	}, jetstream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	awaitConnected(t, conn)
	return log, conn
}

// log reads as a follower and writes as a writer, as the programs do.
type log struct {
	*jetstream.Log
	reader eventbus.Reader
}

func (l log) Tip(ctx context.Context) (event.Pos, error)            { return l.reader.Tip(ctx) }
func (l log) Follow(ctx context.Context) (eventbus.Follower, error) { return l.reader.Follow(ctx) }
func (l log) Kept(ctx context.Context) (eventbus.Kept, error)       { return l.reader.Kept(ctx) }

func (l log) Read(ctx context.Context, behind event.Pos) (eventbus.Cursor, error) {
	return l.reader.Read(ctx, behind)
}

func (l log) HistoryOf(ctx context.Context, key event.Key) ([]event.Recorded, error) {
	return l.reader.HistoryOf(ctx, key)
}

func (b *bus) open(t *testing.T) eventbus.Log {
	t.Helper()
	writer, _ := b.dial(t, connect.Writer)
	reader, _ := b.dial(t, connect.Follower)
	return log{Log: writer, reader: reader}
}

func awaitConnected(t *testing.T, conn *nats.Conn) {
	t.Helper()
	wait.Eventually(t, time.Minute, "the client is connected", func() error {
		if !conn.IsConnected() {
			return errors.Join(errors.New("it is not"), conn.LastError())
		}
		return nil
	})
}

// appendMessage publishes directly to the stream, as a newer version of the log might: sealed,
// after the existing events.
func appendMessage(t *testing.T, l *jetstream.Log, conn *nats.Conn, m event.Message) {
	t.Helper()
	kept, err := l.Kept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tip := event.Before(kept.Tip.Epoch)
	cursor, err := l.Read(t.Context(), event.Pos{})
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	for tip.Seq < kept.Tip.Seq {
		events, err := cursor.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		newest := events[len(events)-1]
		tip.Pos = newest.Pos
		if tip.Chain, err = event.ChainOf(newest.Message); err != nil {
			t.Fatal(err)
		}
	}
	m, _ = event.Seal(m, tip, time.Now())
	publish(t, conn, tip.Epoch, m)
}

// publish publishes a message as it is.
func publish(t *testing.T, conn *nats.Conn, epoch string, m event.Message) {
	t.Helper()
	msg := &nats.Msg{Subject: "routing." + epoch + "." + m.Subject, Header: nats.Header{}, Data: m.Data}
	for name, value := range m.Header {
		msg.Header[name] = []string{value}
	}
	wait.Eventually(t, time.Minute, "the message is recorded", func() error {
		_, err := conn.RequestMsgWithContext(t.Context(), msg)
		if err != nil && !errors.Is(err, nats.ErrNoResponders) { // that is a stream whose leader is not known yet
			return wait.Final(err)
		}
		return err
	})
}

// rewrite re-creates the stream with the edited messages: as if the files had been changed,
// with checksums of the server that are right.
func rewrite(t *testing.T, conn *nats.Conn, edit func([]event.Stored) []event.Stored) {
	t.Helper()
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstream.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	prefix := strings.TrimSuffix(info.Config.Subjects[0], ">")
	var events []event.Stored
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		raw, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		e := event.Stored{Message: event.Message{Subject: strings.TrimPrefix(raw.Subject, prefix), Header: map[string]string{}, Data: raw.Data}}
		e.Pos.Seq = seq
		for name := range raw.Header {
			if strings.HasPrefix(name, "ce-") {
				e.Message.Header[name] = raw.Header[name][0]
			}
		}
		events = append(events, e)
	}
	if err := js.DeleteStream(t.Context(), jetstream.StreamName); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, time.Minute, "the stream is there again", func() error {
		_, err := js.CreateStream(t.Context(), info.Config)
		return err
	})
	for _, e := range edit(events) {
		publish(t, conn, strings.Split(prefix, ".")[1], e.Message)
	}
}

// drop takes an event out of the middle. It must be the only one of its key.
func drop(t *testing.T, conn *nats.Conn, seq uint64) {
	t.Helper()
	js, err := natsjs.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstream.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := stream.GetMsg(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), natsjs.WithPurgeSubject(raw.Subject)); err != nil {
		t.Fatal(err)
	}
}

// hooks returns the suite's store, given how to open a log and how to reach the
// server as a writer.
func hooks(open func(*testing.T) eventbus.Log, dial func(*testing.T) (*jetstream.Log, *nats.Conn)) logtest.Store {
	return logtest.Store{
		Open: open,
		AppendMessage: func(t *testing.T, m event.Message) {
			l, conn := dial(t)
			appendMessage(t, l, conn, m)
		},
		Damage: func(t *testing.T, seq uint64, change func(*event.Message)) {
			_, conn := dial(t)
			rewrite(t, conn, func(events []event.Stored) []event.Stored {
				change(&events[seq-1].Message)
				return events
			})
		},
		Rewind: func(t *testing.T, to event.Mark) {
			_, conn := dial(t)
			rewrite(t, conn, func(events []event.Stored) []event.Stored { return events[:to.Seq] })
		},
		Drop: func(t *testing.T, seq uint64) {
			_, conn := dial(t)
			drop(t, conn, seq)
		},
	}
}

func TestJetStreamInAnotherProcessIsALog(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Store {
		b := startBus(t)
		store := hooks(b.open, func(t *testing.T) (*jetstream.Log, *nats.Conn) { return b.dial(t, connect.Writer) })
		store.Lose, store.Crash = b.lose, b.crash
		return store
	})
}
