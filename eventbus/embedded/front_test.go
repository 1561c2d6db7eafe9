package embedded_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/tools/wait"
)

// strangers open many connections from an address of their own, of which half are silent and
// half send an invalid token, and reopen each that is closed.
func strangers(t *testing.T, s *embedded.Server, many int) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 5 * time.Second}
	ctx, stop := context.WithCancel(t.Context())
	opened := make(chan struct{}, many)
	ended := make(chan struct{}, many)
	for n := range many {
		go func() {
			defer func() { ended <- struct{}{} }()
			for first := true; ctx.Err() == nil; first = false {
				conn, err := dialer.DialContext(ctx, "tcp", s.Addr().String())
				if err != nil {
					continue
				}
				if first {
					opened <- struct{}{}
				}
				if n%2 == 0 {
					_, _ = conn.Write([]byte("CONNECT {\"auth_token\":\"" + strings.Repeat("junk", 20) + "\"}\r\nPING\r\n"))
				}
				gone := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = conn.Read(make([]byte, 1<<10))
				_, _ = conn.Read(make([]byte, 1<<10)) // after the greeting, until it is closed
				gone()
				_ = conn.Close()
				select {
				case <-time.After(10 * time.Second):
				case <-ctx.Done():
				}
			}
		}()
	}
	for range many {
		select {
		case <-opened:
		case <-time.After(60 * time.Second):
			t.Fatal("the strangers do not get their connections")
		}
	}
	t.Cleanup(func() {
		stop()
		for range many {
			<-ended
		}
	})
}

func TestAnonymousClientsEvictNoOtherConnection(t *testing.T) {
	s := listening(t)
	writer := dial(t, s, "the writer", connect.Writer)
	await(t, "the writer is connected", writer.IsConnected)
	log, _ := begun(t, writer)
	const many, mayStay = 5000, 256
	strangers(t, s, many)
	wait.Eventually(t, 2*time.Minute, "strangers are hung up on", func() error {
		stats, err := s.Stats()
		if err == nil && stats.Closed < many-mayStay {
			err = fmt.Errorf("of %d connections %d are closed", many, stats.Closed)
		}
		return err
	})

	// Existing connections are served, and new clients get in during the attack.
	within := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	if _, err := log.Append(within(), logtest.Fact("k", 1), 0); err != nil {
		t.Fatalf("who was connected before: %v", err)
	}
	if n := writer.Stats().Reconnects; n > 0 {
		t.Errorf("its connection was lost %d times", n)
	}
	came := time.Now()
	for name, role := range map[string]connect.Role{"the writer": connect.Writer, "a follower": connect.Follower} {
		conn, soon := dial(t, s, name, role), within()
		for !conn.IsConnected() {
			if soon.Err() != nil {
				t.Fatalf("%s does not get in: %v", name, conn.LastError())
			}
			time.Sleep(time.Millisecond)
		}
		bounds := jetstream.Config{Conn: conn}
		if role == connect.Follower {
			bounds.APIPrefix = connect.FollowerAPI
		}
		reader, err := jetstream.New(bounds)
		if err != nil {
			t.Fatal(err)
		}
		if tip, err := reader.Tip(within()); err != nil || tip.Seq == 0 {
			t.Errorf("%s reads %v, %v", name, tip, err)
		}
	}
	t.Logf("they were served %s after they came", time.Since(came).Round(time.Millisecond))
}
