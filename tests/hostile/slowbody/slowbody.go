// Package slowbody sends and reads the bodies of an IO context server slowly, as the pod of a unit.
package slowbody

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
)

// Unit is a unit that runs, with the token of its pod.
type Unit struct{ Lifecycle, Name, Output, Token string }

// Assignment returns the path of the unit's assignment, and OutputPath that of its output.
func (u Unit) Assignment() string {
	return "/v1/units/" + u.Lifecycle + "/" + u.Name + "/assignment"
}

// OutputPath returns the path of the unit's output.
func (u Unit) OutputPath() string {
	return "/v1/units/" + u.Lifecycle + "/" + u.Name + "/outputs/" + u.Output
}

// Output sends all of an output but its last byte, which occupies the most memory, and reports
// whether the server waited for that.
func Output(_ context.Context, conn net.Conn, u Unit) (slow bool) {
	if _, err := fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", u.OutputPath(), u.Token, iocontext.MaxValue); err != nil {
		return false
	}
	begun := time.Now()
	go func() { _, _ = conn.Write(make([]byte, iocontext.MaxValue-1)) }() // it ends with the connection
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
		_ = answer.Body.Close()
	}
	return time.Since(begun) > time.Second
}

// Assignment requests an assignment and reads its first bytes alone. It reports whether there
// was one.
func Assignment(ctx context.Context, conn net.Conn, u Unit) (slow bool) {
	const good = "HTTP/1.1 200"
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", u.Assignment(), u.Token); err != nil {
		return false
	}
	status := make([]byte, len(good))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != good {
		return false
	}
	_ = wait.For(ctx, unreadFor)
	return true
}

// unreadFor is longer than the server waits for a reader: whether it has closed the connection cannot
// be seen without reading.
const unreadFor = 6 * time.Second

// LittleMemory limits the memory of the kernel for a connection that is not read.
func LittleMemory(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
	return errors.Join(err, failed)
}
