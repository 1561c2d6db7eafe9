package trust

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"switchyard.dev/eventbus/callers"
)

const (
	// handshakeRecord is the first byte of every TLS connection, and of no plain one of
	// HTTP/2 or NATS.
	handshakeRecord = 0x16
	recordHeader    = 5
	// maxHello bounds what a client can send before it is known to speak TLS. The operator's
	// clients send about 1.5 KiB.
	maxHello = 8 << 10
	// preface is how a client of HTTP/2 begins.
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// ServerCredentials make a gRPC server speak TLS to clients that begin with it. Plain
// connections are served with acceptPlain, and refused without.
//
// The server's ConnectionTimeout bounds the handshake. Until it is done a connection costs
// what maxHello lets a client send, and counts among silent ones (callers.Listener): until the
// preface of HTTP/2 has come over a plain one, or a ClientHello that offers HTTP/2.
func ServerCredentials(config *tls.Config, acceptPlain bool) credentials.TransportCredentials {
	return &either{credentials.NewTLS(callers.BegunTLS(config, "h2")), acceptPlain}
}

// ClientCredentials make a gRPC client verify its peer's certificate against Roots, for
// name: a host or an address. Without Roots it connects plain.
func ClientCredentials(r *Roots, name string) credentials.TransportCredentials {
	if r == nil {
		return insecure.NewCredentials()
	}
	return &explained{credentials.NewTLS(r.Client(name))}
}

// explained explains the error when a server does not answer with TLS.
type explained struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (e *explained) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := e.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) {
		err = fmt.Errorf("%s does not support TLS, and connections without TLS are disabled: is it of an earlier release? (%w)", authority, err)
	}
	return secure, info, err
}

// Clone implements credentials.TransportCredentials.
func (e *explained) Clone() credentials.TransportCredentials {
	return &explained{e.TransportCredentials.Clone()}
}

type either struct {
	credentials.TransportCredentials
	acceptPlain bool
}

var errPlain = errors.New("TLS is required here: connections without TLS are not accepted")

// ServerHandshake implements credentials.TransportCredentials.
func (e *either) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	head := make([]byte, 1, recordHeader)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, nil, err
	}
	c := &begun{Conn: conn, read: head, left: -1}
	if head[0] != handshakeRecord {
		if !e.acceptPlain {
			return nil, nil, errPlain
		}
		if err := c.plain(); err != nil {
			return nil, nil, err
		}
		return insecure.NewCredentials().ServerHandshake(c)
	}
	c.read = head[:recordHeader]
	if _, err := io.ReadFull(conn, c.read[1:]); err != nil {
		return nil, nil, err
	}
	if n := int(binary.BigEndian.Uint16(c.read[3:])); n > maxHello {
		return nil, nil, fmt.Errorf("the first TLS record has %d bytes; %d at most are read", n, maxHello)
	}
	c.left = maxHello
	secure, info, err := e.TransportCredentials.ServerHandshake(c)
	c.left = -1
	return secure, info, err
}

// Clone implements credentials.TransportCredentials.
func (e *either) Clone() credentials.TransportCredentials {
	return &either{e.TransportCredentials.Clone(), e.acceptPlain}
}

// begun is a connection of which the beginning has been read.
type begun struct {
	net.Conn
	read []byte
	// left is how much more may be read; less than 0: any amount.
	left int
}

// plain reads as much as the preface of HTTP/2 has.
func (c *begun) plain() error {
	head := make([]byte, len(preface))
	n := copy(head, c.read)
	if _, err := io.ReadFull(c.Conn, head[n:]); err != nil {
		return err
	}
	if c.read = head; string(head) == preface {
		callers.Begun(c.Conn)
	}
	return nil
}

// NetConn returns the connection below, as that of tls.Conn does.
func (c *begun) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *begun) Read(b []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(b, c.read)
		if c.read = c.read[n:]; len(c.read) == 0 {
			c.read = nil
		}
		return n, nil
	}
	if c.left < 0 {
		return c.Conn.Read(b)
	}
	if c.left == 0 {
		return 0, fmt.Errorf("a TLS handshake took more than %d bytes of the client's", maxHello)
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// keptAlive detects a lost peer within 15 seconds, also while there are no calls.
var keptAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}

// Dial returns a connection to a program of the operator's, at host:port, which is opened with
// the first call. The name is looked up for each attempt. service is the host, or the
// host:port, that Roots must vouch for; without Roots the connection is plain. Options that are
// given count more than those of every connection.
func Dial(address, service string, r *Roots, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	if host, _, err := net.SplitHostPort(service); err == nil {
		service = host
	}
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(ClientCredentials(r, service)),
		grpc.WithNoProxy(), // pods reach each other
		grpc.WithKeepaliveParams(keptAlive),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: time.Second,
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
		}),
	}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", address, err)
	}
	return conn, nil
}
