package routes

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Published clients ping an idle watch every ten seconds; a server that takes
// this for abuse cuts every watch after half a minute. gRPC servers forgive two
// pings that come too early and cut the connection at the third. So the test
// spends the two at once: if a ping five seconds later is answered, then five
// seconds are not too early, and ten are not either.
func TestPingsOnAnIdleWatchAreWelcome(t *testing.T) {
	t.Parallel()
	_, m := serving(t, &factv1.Complete{})
	c := openWatch(t, m.GRPCAddress())
	for _, pause := range []time.Duration{0, 0, 0, 5100 * time.Millisecond} {
		time.Sleep(pause)
		c.ping(t)
	}
}

// A fourth early ping is too much: it shows that the test above can fail.
func TestPingsWithoutAPauseAreNot(t *testing.T) {
	t.Parallel()
	_, m := serving(t, &factv1.Complete{})
	c := openWatch(t, m.GRPCAddress())
	for range 4 {
		if err := c.WritePing(false, [8]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("no GOAWAY but %v", err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("GOAWAY with %v", away.ErrCode)
			}
			return
		}
	}
}

// wire is an HTTP/2 connection with one open watch.
type wire struct{ *http2.Framer }

// openWatch opens a watch by hand and waits until it is idle.
func openWatch(t *testing.T, address string) wire {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	c := wire{http2.NewFramer(conn, conn)}
	var headers bytes.Buffer
	encoder := hpack.NewEncoder(&headers)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/routes.Routes/WatchWorkloadRoutingRules"}, {":authority", address},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"user-agent", "grpc-go/1.60.0"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		c.WriteSettings(),
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true}),
		c.WriteData(1, true, make([]byte, 5)), // an empty request
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.await(t, "SYNCED", func(f http2.Frame) bool {
		data, ok := f.(*http2.DataFrame)
		return ok && bytes.Equal(data.Data(), []byte{0, 0, 0, 0, 2, 8, 3}) // {op: SYNCED}
	})
	return c
}

// ping pings and waits for the answer, and for another one after it: a server
// that has had enough answers first and cuts then.
func (c wire) ping(t *testing.T) {
	t.Helper()
	if err := c.WritePing(false, [8]byte{1}); err != nil {
		t.Fatal(err)
	}
	c.await(t, "the answer to a ping", func(f http2.Frame) bool {
		p, ok := f.(*http2.PingFrame)
		return ok && p.IsAck()
	})
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	c.await(t, "the answer to settings after a ping", func(f http2.Frame) bool {
		s, ok := f.(*http2.SettingsFrame)
		return ok && s.IsAck()
	})
}

// await reads frames until one is as wanted, and answers the server's pings.
func (c wire) await(t *testing.T, what string, wanted func(http2.Frame) bool) {
	t.Helper()
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("no %s but %v", what, err)
		}
		switch f := frame.(type) {
		case *http2.GoAwayFrame:
			t.Fatalf("no %s but GOAWAY: %v %s", what, f.ErrCode, f.DebugData())
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				t.Fatalf("no %s but trailers: the call has ended", what)
			}
		case *http2.RSTStreamFrame:
			t.Fatalf("no %s but the end of the stream: %v", what, f.ErrCode)
		case *http2.PingFrame:
			if !f.IsAck() {
				if err := c.WritePing(true, f.Data); err != nil {
					t.Fatal(fmt.Errorf("answer a ping: %w", err))
				}
			}
		}
		if wanted(frame) {
			return
		}
	}
}
