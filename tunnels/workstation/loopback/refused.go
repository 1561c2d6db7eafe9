package loopback

import (
	"context"
	"net"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Refused returns an Opener that passes each address that the cluster refuses to note, and why: for
// clients that show no text, as those of SOCKS5 and CONNECT. nil: nothing is noted. An address that
// does not answer, and a tunnel that is not connected, are not noted.
func (o Opener) Refused(note func(host string, port uint16, err error)) Opener {
	if note == nil {
		return o
	}
	return func(ctx context.Context, host string, port uint16) (net.Conn, error) {
		c, err := o(ctx, host, port)
		if err != nil && isRefusal(reasonOf(err)) {
			note(host, port, err)
		}
		return c, err
	}
}

// isRefusal reports whether the same address is refused again.
func isRefusal(r tunnelv1.Reason) bool {
	switch r {
	case tunnelv1.Reason_REASON_NOT_FOUND, tunnelv1.Reason_REASON_DESTINATION, tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_INVALID:
		return true
	}
	return false
}
