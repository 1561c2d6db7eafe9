//go:build !unix

package carrier

import (
	"errors"
	"syscall"
)

// readWhenThere is not used on systems where a socket is no file.
func readWhenThere(syscall.RawConn) (*[relayBuffer]byte, int, error) {
	return nil, 0, errors.ErrUnsupported
}
