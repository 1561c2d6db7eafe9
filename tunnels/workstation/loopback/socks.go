package loopback

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/relay"
)

// Numbers of RFC 1928.
const (
	socks5       = 5
	noAuth       = 0
	noMethod     = 0xff
	cmdConnect   = 1
	addrIPv4     = 1
	addrName     = 3
	addrIPv6     = 4
	replyOK      = 0
	replyFailed  = 1
	replyDenied  = 2
	replyNoHost  = 4
	replyRefused = 5
	replyTimeout = 6 // TTL expired, which clients show as a timeout
	replyCommand = 7
	replyAddress = 8
)

// ServeSOCKS serves SOCKS5 on a listener until ctx ends: only CONNECT, and without a password.
// Names are resolved in the cluster.
func ServeSOCKS(ctx context.Context, l net.Listener, open Opener) error {
	return serve(ctx, l, func(ctx context.Context, c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(handshake))
		read := bufio.NewReaderSize(c, 512)
		host, port, reply, err := request(read, c)
		if err != nil {
			if reply != 0 {
				_ = answer(c, reply)
			}
			return
		}
		_ = c.SetDeadline(time.Time{})
		open.through(ctx, &ahead{c, read}, host, port, func(err error) error {
			_ = c.SetWriteDeadline(time.Now().Add(handshake))
			return answer(c, replyTo(err))
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

// request reads the destination of a client. With an error it returns the code to reply, if any.
func request(r *bufio.Reader, w io.Writer) (host string, port uint16, reply byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", 0, 0, err
	}
	if head[0] != socks5 {
		notSOCKS(head[0], w)
		return "", 0, 0, fmt.Errorf("version %d", head[0])
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(r, methods); err != nil {
		return "", 0, 0, err
	}
	method := byte(noMethod)
	for _, m := range methods {
		if m == noAuth {
			method = noAuth
		}
	}
	if _, err := w.Write([]byte{socks5, method}); err != nil || method == noMethod {
		return "", 0, 0, fmt.Errorf("no method in common: %w", err)
	}
	ask := make([]byte, 4)
	if _, err := io.ReadFull(r, ask); err != nil {
		return "", 0, 0, err
	}
	if ask[0] != socks5 || ask[1] != cmdConnect {
		return "", 0, replyCommand, fmt.Errorf("command %d", ask[1])
	}
	if host, err = readHost(r, ask[3]); err != nil {
		return "", 0, replyAddress, err
	}
	if err := binary.Read(r, binary.BigEndian, &port); err != nil {
		return "", 0, 0, err
	}
	if port == 0 {
		return "", 0, replyAddress, fmt.Errorf("port 0")
	}
	return host, port, 0, nil
}

// notSOCKS answers a client that speaks HTTP with an explanation.
func notSOCKS(first byte, w io.Writer) {
	if first >= 'A' && first <= 'Z' {
		const text = "This port speaks SOCKS5, not HTTP.\n"
		_, _ = fmt.Fprintf(w, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
}

func readHost(r *bufio.Reader, kind byte) (string, error) {
	n := 0
	switch kind {
	case addrIPv4:
		n = net.IPv4len
	case addrIPv6:
		n = net.IPv6len
	case addrName:
		length, err := r.ReadByte()
		if err != nil || length == 0 {
			return "", fmt.Errorf("an empty name: %w", err)
		}
		n = int(length)
	default:
		return "", fmt.Errorf("address of type %d", kind)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", err
	}
	if kind == addrName {
		return string(text), nil
	}
	ip, _ := netip.AddrFromSlice(text)
	return ip.Unmap().String(), nil
}

func answer(w io.Writer, reply byte) error {
	_, err := w.Write([]byte{socks5, reply, 0, addrIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

func replyTo(err error) byte {
	if err == nil {
		return replyOK
	}
	switch reasonOf(err) {
	case tunnelv1.Reason_REASON_DESTINATION, tunnelv1.Reason_REASON_FORBIDDEN:
		return replyDenied
	case tunnelv1.Reason_REASON_NOT_FOUND:
		return replyNoHost
	case tunnelv1.Reason_REASON_UNREACHABLE:
		return replyRefused
	case tunnelv1.Reason_REASON_UNAVAILABLE:
		return replyTimeout
	}
	return replyFailed
}
