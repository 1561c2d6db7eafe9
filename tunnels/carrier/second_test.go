package carrier_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/carrier"
)

// beside begins a session that joins another one, at both ends.
func beside(t *testing.T, settings carrier.Settings, client, server *carrier.Session) (client2, server2 *carrier.Session) {
	t.Helper()
	near, far := wires(t)
	at := func(first *carrier.Session) carrier.Settings {
		of := settings
		of.Beside = func() *carrier.Session { return first }
		return of
	}
	served := make(chan *carrier.Session, 1)
	go func() {
		s, err := at(server).Serve(t.Context(), far, &tunnelv1.ServiceName{}, func(context.Context) (proto.Message, error) { return &tunnelv1.Refused{}, nil })
		if err != nil {
			t.Error(err)
		}
		served <- s
	}()
	client2, err := at(client).Connect(t.Context(), near, &tunnelv1.ServiceName{}, &tunnelv1.Refused{}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return client2, <-served
}

// joined begins a session and one that joins it.
func joined(t *testing.T, settings carrier.Settings) (client, server, client2, server2 *carrier.Session) {
	t.Helper()
	client, server, clientErr, serverErr := others(t, settings, "large")
	if err := errors.Join(clientErr, serverErr); err != nil {
		t.Fatal(err)
	}
	client2, server2 = beside(t, settings, client, server)
	return client, server, client2, server2
}

// through opens a connection from the server in one of its sessions. The client accepts it in its first one.
func through(t *testing.T, client, by *carrier.Session) (near, far net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		in, err := client.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if c, err := in.Accept(); err == nil {
			accepted <- c
		}
	}()
	far, err := by.Open(ctx, &tunnelv1.ServiceName{})
	if err != nil {
		t.Fatal(err)
	}
	return <-accepted, far
}

func TestTwoSessionsHaveOneLimitOfStreams(t *testing.T) {
	client, server, _, server2 := joined(t, other)
	through(t, client, server)
	through(t, client, server2)
	near, far := through(t, client, server2)
	for what, s := range map[string]*carrier.Session{"first": server, "second": server2} {
		if _, err := s.Open(t.Context(), &tunnelv1.ServiceName{}); !exhausted(err) {
			t.Errorf("a fourth connection, in the %s session: %v", what, err)
		}
	}
	for _, s := range []*carrier.Session{client, server} {
		if n := s.Connections(); n != 3 {
			t.Errorf("%d connections are counted", n)
		}
	}
	_, _ = near.Close(), far.Close()
	wait.Eventually(t, patience, "the end of one", func() error {
		if n := server.Connections(); n != 2 {
			return errors.New("it is counted")
		}
		return nil
	})
	through(t, client, server)
}

// TestTwoSessionsHaveOneBoundOfUnreadData sends over each less than the bound, and more over both. The connection with the most is cut.
func TestTwoSessionsHaveOneBoundOfUnreadData(t *testing.T) {
	bounded := other
	bounded.Limits.Unread = 200 << 10
	client, server, _, server2 := joined(t, bounded)
	_, larger := through(t, client, server2)
	near, smaller := through(t, client, server)
	if _, err := larger.Write(make([]byte, 180<<10)); err != nil {
		t.Fatal(err)
	}
	through(t, client, server2) // all has arrived before
	if _, err := smaller.Write(make([]byte, 50<<10)); err != nil {
		t.Fatal(err)
	}
	readsCut(t, "the connection with the most unread data", larger)
	if _, err := io.CopyN(io.Discard, near, 50<<10); err != nil {
		t.Errorf("the other reads %v", err)
	}
}

func TestTheSecondSessionEndsWithTheFirst(t *testing.T) {
	client, server, client2, server2 := joined(t, other)
	_, far := through(t, client, server2)
	client.Close(nil)
	for _, s := range []*carrier.Session{client2, server, server2} {
		select {
		case <-s.Done():
		case <-time.After(patience):
			t.Fatal("a session continues")
		}
	}
	readsCut(t, "a connection in the second session", far)
}

// TestASecondSessionIsRequestedAgainAfterItsEnd cuts the second session alone.
func TestASecondSessionIsRequestedAgainAfterItsEnd(t *testing.T) {
	client, server, clientErr, serverErr := others(t, other, "large")
	if err := errors.Join(clientErr, serverErr); err != nil {
		t.Fatal(err)
	}
	if got := server.Second(t.Context(), nil); got != server {
		t.Error("there is one that was not requested")
	}
	ends := make(chan *carrier.Session, 10)
	request := func(context.Context) error {
		end, _ := beside(t, other, client, server)
		ends <- end
		return nil
	}
	_, kept := through(t, client, server)
	for range 2 {
		var second *carrier.Session
		wait.Eventually(t, patience, "a second session", func() error {
			if second = server.Second(t.Context(), request); second == server {
				return errors.New("there is none")
			}
			return nil
		})
		time.Sleep(1100 * time.Millisecond) // as long as it takes until another one may be requested
		if server.Second(t.Context(), request) != second {
			t.Error("there is another one")
		}
		_, far := through(t, client, second)
		(<-ends).Close(nil)
		readsCut(t, "a connection in the second session", far)
		<-second.Done()
	}
	if len(ends) > 0 {
		t.Error("it was requested while there was one")
	}
	if _, err := kept.Write([]byte("still")); err != nil || server.Err() != nil {
		t.Errorf("the first session has ended: %v, %v", err, server.Err())
	}
}

// TestASecondSessionIsRequestedOnceInATime has requests that fail, and one that is not answered. Streams do not wait
// for it twice.
func TestASecondSessionIsRequestedOnceInATime(t *testing.T) {
	for name, answered := range map[string]bool{"refused": true, "not answered": false} {
		_, server, clientErr, serverErr := others(t, other, "large")
		if err := errors.Join(clientErr, serverErr); err != nil {
			t.Fatal(err)
		}
		var requests atomic.Int32
		for range 100 {
			if server.Second(t.Context(), func(ctx context.Context) error {
				requests.Add(1)
				if !answered {
					<-t.Context().Done()
				}
				return errors.New("refused")
			}) != server {
				t.Error("there is one")
			}
		}
		wait.Eventually(t, patience, "one request, "+name, func() error {
			if n := requests.Load(); n != 1 {
				return fmt.Errorf("there were %d", n)
			}
			return nil
		})
	}
}
