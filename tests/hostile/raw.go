package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sync/errgroup"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// raw is a connection that speaks HTTP/2 frame by frame, or not at all.
type raw struct {
	net.Conn
	*http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
}

func connect(address string) (*raw, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	r := &raw{Conn: conn, Framer: http2.NewFramer(conn, conn)}
	r.AllowIllegalWrites = true
	r.encoder = hpack.NewEncoder(&r.headers)
	return r, conn.SetDeadline(time.Now().Add(patience))
}

// greet sends the first frames of a client.
func (r *raw) greet(settings ...http2.Setting) error {
	if _, err := io.WriteString(r.Conn, http2.ClientPreface); err != nil {
		return err
	}
	return r.WriteSettings(settings...)
}

// call returns the headers of a call, with further ones.
func (r *raw) call(token string, more ...string) []byte {
	r.headers.Reset()
	fields := append([]string{
		":method", "POST", ":scheme", "http", ":path", discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName,
		":authority", "xds", "content-type", "application/grpc", "te", "trailers", "authorization", "Bearer " + token,
	}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = r.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // into memory
	}
	return bytes.Clone(r.headers.Bytes())
}

// cut waits until the server closes the connection, at most so long, and discards data before
// that.
func (r *raw) cut(within time.Duration) error {
	if err := r.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, r.Conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the server has not closed the connection within %s", within)
	}
	return nil // closed, this way or that
}

// connecting is an attack of n connections that are all there at once.
func connecting(attack func(r *raw, token string) error) func(context.Context, *Site, int) (int, error) {
	return func(ctx context.Context, s *Site, n int) (int, error) {
		group, _ := errgroup.WithContext(ctx)
		for i := range n {
			r, err := connect(s.address)
			if err != nil {
				return i, errors.Join(err, group.Wait())
			}
			group.Go(func() error {
				defer r.Close()
				return attack(r, s.attackers[i%len(s.attackers)])
			})
		}
		return n, group.Wait()
	}
}

// Times after which the server is to have closed a connection: 5 s for the
// greeting, 15 s for one that has no stream or does not answer pings; and more, for this
// machine has other things to do.
const (
	greetingOver = 5*time.Second + 3*time.Second
	silenceOver  = 15*time.Second + 3*time.Second
)

// Silence is an attack by connections of several kinds that send little, and wait: n of each.
func Silence() Attack {
	return together("silence",
		Attack{"silent connections", connecting(func(r *raw, _ string) error { return r.cut(greetingOver) })},
		Attack{"half a greeting", connecting(func(r *raw, _ string) error {
			if _, err := io.WriteString(r.Conn, http2.ClientPreface[:10]); err != nil {
				return err
			}
			return r.cut(greetingOver)
		})},
		Attack{"a greeting and no more", connecting(func(r *raw, _ string) error {
			if err := r.greet(); err != nil {
				return err
			}
			return r.cut(silenceOver)
		})},
		Attack{"a call and no request", connecting(func(r *raw, token string) error {
			if err := r.greet(); err != nil {
				return err
			}
			if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.call(token), EndHeaders: true}); err != nil {
				return err
			}
			return r.cut(silenceOver)
		})},
		Attack{"calls that are never read", connecting(func(r *raw, token string) error {
			return errors.Join(r.neverReads(token), r.cut(silenceOver))
		})},
	)
}

// neverReads subscribes to routes with no window for the response, and acknowledges it.
func (r *raw) neverReads(token string) error {
	if err := r.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		return err
	}
	if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.call(token), EndHeaders: true}); err != nil {
		return err
	}
	for n := range 20 {
		message, err := framed(asks(own()...))
		if n > 0 {
			message, err = framed(&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: asks().TypeUrl, ResponseNonce: fmt.Sprint(n), ResourceNamesSubscribe: own(),
			})
		}
		if err != nil {
			return err
		}
		if err := r.WriteData(1, false, message); err != nil {
			return err
		}
	}
	return nil
}

// Floods are attacks on connections by frames.
func Floods() []Attack {
	return []Attack{
		{"headers without an end", rarely(100, connecting(func(r *raw, token string) error {
			if err := r.greet(); err != nil {
				return err
			}
			block := r.call(token, "x-large", strings.Repeat("x", 15<<10))
			err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
			for n := 0; err == nil && n < 1000; n++ {
				err = r.WriteContinuation(1, false, r.call(token, fmt.Sprintf("x-large-%d", n), strings.Repeat("x", 15<<10)))
			}
			return r.cut(greetingOver)
		}))},
		{"pings", flooding(func(r *raw, _ string, n int) error {
			return r.WritePing(false, [8]byte{byte(n)})
		}, true)},
		{"settings", flooding(func(r *raw, _ string, n int) error {
			return r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(n)})
		}, false)},
		{"resets", flooding(func(r *raw, token string, n int) error {
			id := uint32(2*n + 1)
			if err := r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.call(token), EndHeaders: true}); err != nil {
				return err
			}
			return r.WriteRSTStream(id, http2.ErrCodeCancel)
		}, false)},
		{"more streams than there may be", flooding(func(r *raw, token string, n int) error {
			return r.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*n + 1), BlockFragment: r.call(token), EndHeaders: true})
		}, false)},
	}
}

// framesEach is how many frames one connection sends.
const framesEach = 500

// flooding is an attack by frames on as few connections as that takes, n in all. Nothing is read
// until all are sent; cut reports whether the server has to close the connection then, otherwise
// it may as well go on.
func flooding(frame func(r *raw, token string, n int) error, cut bool) func(context.Context, *Site, int) (int, error) {
	return func(ctx context.Context, s *Site, n int) (int, error) {
		conns := max(1, n/framesEach)
		_, err := connecting(func(r *raw, token string) error {
			if err := r.greet(); err != nil {
				return err
			}
			for i := range framesEach {
				if err := frame(r, token, i); err != nil {
					return nil // closed already: that is right
				}
			}
			if cut {
				return r.cut(greetingOver)
			}
			return nil
		})(ctx, s, conns)
		return conns * framesEach, err
	}
}
