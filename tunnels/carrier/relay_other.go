//go:build !unix

package carrier

import (
	"errors"
	"syscall"
)

// readWhenThere is for systems on which a socket is a file.
func readWhenThere(syscall.RawConn) (*[relayBuffer]byte, int, error) {
	return nil, 0, errors.ErrUnsupported
}
