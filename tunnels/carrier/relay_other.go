//go:build !unix

package carrier

import (
	"errors"
	"syscall"
)

// readWhenThere is not supported on other systems; Relay does not call it there.
func readWhenThere(syscall.RawConn) (*[relayBuffer]byte, int, error) {
	return nil, 0, errors.ErrUnsupported
}
