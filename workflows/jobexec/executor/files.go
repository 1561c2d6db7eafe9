package executor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"switchyard.dev/workflows/jobexec/socket"
)

// passwd is where images have the homes of their users.
const passwd = "/etc/passwd"

// home returns the working directory of scripts: HOME, else that of the user, else /.
func home(environ []string) string {
	var own []string
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "HOME="); ok {
			own = []string{value}
		}
	}
	for _, dir := range append(own, homeOf(os.Getuid())) {
		if about, err := os.Stat(dir); filepath.IsAbs(dir) && err == nil && about.IsDir() && unix.Access(dir, unix.X_OK) == nil {
			return dir
		}
	}
	return "/"
}

// homeOf returns the home of a user; "": the image does not have it.
func homeOf(uid int) string {
	f, err := os.Open(passwd)
	if err != nil {
		return ""
	}
	defer f.Close()
	const id, dir = 2, 5
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) > dir && fields[id] == strconv.Itoa(uid) {
			return fields[dir]
		}
	}
	return ""
}

// open opens a regular file and returns its size. Links are resolved in the container. Nothing else is opened: neither a
// device, which can react, nor a pipe, which can wait.
func open(path string) (*os.File, int64, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, refused(path, err)
	}
	defer func() { _ = unix.Close(at) }() // it is only a path
	var about unix.Stat_t
	if err := unix.Fstat(at, &about); err != nil {
		return nil, 0, refused(path, err)
	}
	if about.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, &socket.Refusal{Reason: socket.NotAFile, Message: fmt.Sprintf("%s is %s, not a regular file", path, kind(about.Mode))}
	}
	f, err := os.Open(filepath.Join("/proc/self/fd", strconv.Itoa(at)))
	if err != nil {
		return nil, 0, refused(path, err)
	}
	if about.Size == 0 {
		if n, _ := f.Read(make([]byte, 1)); n > 0 {
			return nil, 0, errors.Join(&socket.Refusal{Reason: socket.FileNotReadable,
				Message: fmt.Sprintf("%s has no size, as files of the kernel: have the script copy it", path)}, f.Close())
		}
	}
	return f, about.Size, nil
}

// refused returns why a file cannot be opened.
func refused(path string, err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number // without another path
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return &socket.Refusal{Reason: socket.FileMissing, Message: fmt.Sprintf("%s does not exist", path)}
	}
	return &socket.Refusal{Reason: socket.FileNotReadable, Message: fmt.Sprintf("%s cannot be read: %v", path, err)}
}

// kind describes a file that is not regular.
func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a folder"
	case unix.S_IFIFO:
		return "a pipe"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}
