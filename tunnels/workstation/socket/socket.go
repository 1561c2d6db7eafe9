// Package socket serves the status of a running workstation to its user over a unix socket, which
// only that user may open, in a folder that only that user may read. Both ends check the other's
// user ID, as the system reports it, so that neither another user of the machine nor a web page
// gets in.
package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	suffix = ".sock"
	// unheard is the suffix of a socket that does not listen yet. It has the same length, so that
	// a path that is too long fails at once.
	unheard = ".new~"
	// patience bounds the time for a question, and maxBytes the size of an answer.
	patience = 5 * time.Second
	maxBytes = 4 << 20
	// folderName is that of the folder below the user's own.
	folderName = "switchyard"
)

// errNobody is the error of a leftover socket, of a program that was killed.
var errNobody = errors.New("no program answers")

// Folder returns the folder of a user's sockets. getenv reads the environment.
func Folder(getenv func(string) string) string {
	if own := getenv("XDG_RUNTIME_DIR"); own != "" {
		return filepath.Join(own, folderName)
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("%s-%d", folderName, os.Getuid()))
}

// prepare creates a folder, or checks that an existing one is only the user's.
func prepare(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return owned(folder)
}

// owned returns an error if a folder is not only the user's.
func owned(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(s.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder that you alone may use: remove it, or set XDG_RUNTIME_DIR", folder)
	}
	return nil
}

// Serve answers each connection to the socket of a name with the result of answer, as JSON, until
// ctx ends; then the socket is removed.
func Serve(ctx context.Context, folder, name string, answer func() any) error {
	if err := prepare(folder); err != nil {
		return err
	}
	path := filepath.Join(folder, name+suffix)
	l, err := listen(filepath.Join(folder, name+unheard), path)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	defer os.Remove(path)
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		respond(c.(*net.UnixConn), answer) // One at a time: it is short.
	}
}

// listen listens at path. The socket is created at aside and renamed once it listens: All would
// take a socket under its final name that does not listen yet for a leftover, and remove it.
func listen(aside, path string) (net.Listener, error) {
	if err := os.Remove(aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: aside, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(aside, 0o600)
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(aside))
	}
	return l, nil
}

// respond answers one connection.
func respond(c *net.UnixConn, answer func() any) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if uid, err := peer(c); err != nil || uid != os.Getuid() && uid != 0 {
		return
	}
	_ = json.NewEncoder(c).Encode(answer())
}

// All returns the answers of all sockets in a folder, each decoded as a T, and removes leftover
// sockets of programs that were killed. When some do not answer, it returns the other answers and
// an error.
func All[T any](folder string) ([]T, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = owned(folder)
	}
	if err != nil {
		return nil, err
	}
	var out []T
	var wrong []error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		path := filepath.Join(folder, e.Name())
		var one T
		switch err := ask(path, &one); {
		case errors.Is(err, errNobody):
			_ = os.Remove(path)
		case err != nil:
			wrong = append(wrong, err)
		default:
			out = append(out, one)
		}
	}
	return slices.Clip(out), errors.Join(wrong...)
}

// ask reads the answer at a socket.
func ask(path string, into any) error {
	c, err := net.DialTimeout("unix", path, patience)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return errNobody
	}
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if uid, err := peer(c.(*net.UnixConn)); err != nil || uid != os.Getuid() && uid != 0 {
		return fmt.Errorf("%s is served by another user", path)
	}
	if err := json.NewDecoder(io.LimitReader(c, maxBytes)).Decode(into); err != nil {
		return fmt.Errorf("read what %s answers: %w", path, err)
	}
	return nil
}
