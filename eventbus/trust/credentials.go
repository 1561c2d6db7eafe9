package trust

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// handshakeRecord is the first byte of every TLS connection, and of no plain one of
	// HTTP/2 or NATS.
	handshakeRecord = 0x16
	recordHeader    = 5
	// maxHello bounds what a client may send before it is known to speak TLS. Ours send
	// about 1.5 KiB.
	maxHello = 8 << 10
)

// ServerCredentials make a gRPC server speak TLS to clients that begin with it. Plain
// connections are served with acceptPlain, and refused without.
//
// The server's ConnectionTimeout bounds the handshake. Until it is done a connection costs
// what maxHello lets a client send, and counts among silent ones (callers.Listener).
func ServerCredentials(config *tls.Config, acceptPlain bool) credentials.TransportCredentials {
	return &either{credentials.NewTLS(config), acceptPlain}
}

// ClientCredentials make a gRPC client verify its peer's certificate against Roots, for
// name: a host or an address. Without Roots it connects plain.
func ClientCredentials(r *Roots, name string) credentials.TransportCredentials {
	if r == nil {
		return insecure.NewCredentials()
	}
	return &explained{credentials.NewTLS(r.Client(name))}
}

// explained says what it means that a server answers plain.
type explained struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (e *explained) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := e.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) {
		err = fmt.Errorf("%s speaks no TLS, and is not spoken to plain: is it of an earlier release? (%w)", authority, err)
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

var errPlain = errors.New("TLS is needed here: plain connections are no longer taken")

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
