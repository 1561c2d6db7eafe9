package loopback

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/socks/handshake"
)

// ServeSOCKS serves SOCKS5 on a listener until ctx ends: only CONNECT, and without a password.
// Names are resolved in the cluster.
func ServeSOCKS(ctx context.Context, l net.Listener, open Opener) error {
	return serve(ctx, l, func(ctx context.Context, c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(requestWithin))
		// Closing a connection with unread bytes resets it, and the client may lose the reply.
		client := &ahead{c, bufio.NewReaderSize(c, 512)}
		host, port, err := request(client)
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Time{})
		open.through(ctx, client, host, port, func(err error) error {
			_ = c.SetWriteDeadline(time.Now().Add(requestWithin))
			return handshake.Reply(c, replyTo(err), nil)
		})
	})
}

// ahead is a connection with a buffered reader.
type ahead struct {
	net.Conn
	from *bufio.Reader
}

// Read implements net.Conn.
func (a *ahead) Read(p []byte) (int, error) { return a.from.Read(p) }

// CloseWrite closes the sending side.
func (a *ahead) CloseWrite() error {
	if half, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Cut aborts the connection.
func (a *ahead) Cut() { relay.Cut(a.Conn) }

// request reads the destination of a client, which is answered where it is refused.
func request(c net.Conn) (host string, port uint16, err error) {
	host, port, err = handshake.Request(c, func(methods []byte) error {
		if slices.Contains(methods, handshake.Anonymous) {
			return handshake.Select(c, handshake.Anonymous)
		}
		return errors.Join(errors.New("no method in common"), handshake.Refuse(c))
	})
	var version handshake.VersionError
	if errors.As(err, &version) {
		notSOCKS(byte(version), c)
	}
	if err == nil && (host == "" || port == 0) {
		err = errors.Join(errors.New("no name, or port 0"), handshake.Reply(c, handshake.AddressNotSupported, nil))
	}
	if ip, wrong := netip.ParseAddr(host); wrong == nil && ip.Is4In6() {
		host = ip.Unmap().String()
	}
	return host, port, err
}

// notSOCKS answers a client that speaks HTTP with an explanation.
func notSOCKS(first byte, w io.Writer) {
	if first >= 'A' && first <= 'Z' {
		const text = "This port speaks SOCKS5, not HTTP.\n"
		_, _ = fmt.Fprintf(w, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
}

func replyTo(err error) byte {
	if err == nil {
		return handshake.Succeeded
	}
	switch reason := reasonOf(err); reason {
	case tunnelv1.Reason_REASON_UNAUTHENTICATED:
		return handshake.Failure
	case tunnelv1.Reason_REASON_UNAVAILABLE:
		return handshake.TimedOut
	default:
		return handshake.Code(reason)
	}
}
