package socket_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Another user gets no answer, even where neither the folder nor the mode of the socket deny
// access.
func TestAnotherUserGetsNoStatus(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it takes root to change the user")
	}
	folder := filepath.Join(t.TempDir(), "s")
	defer serve(t, folder, "a", 1)()
	path := filepath.Join(folder, "a.sock")
	for at := folder; at != "/"; at = filepath.Dir(at) {
		if at != os.TempDir() {
			_ = os.Chmod(at, 0o755)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if n, err := reads(0, path); err != nil || n == 0 {
		t.Fatalf("root read %d bytes, %v", n, err)
	}
	if n, err := reads(1234, path); err != nil || n != 0 {
		t.Errorf("another user read %d bytes, %v", n, err)
	}
}

// reads returns how much a user reads at a socket.
func reads(uid uintptr, path string) (n int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // And never unlocked: the thread ends with the user that it has become.
		if uid != 0 {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
				err = errno
				return
			}
		}
		fd, e := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if e != nil {
			err = e
			return
		}
		defer syscall.Close(fd)
		if err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err == nil {
			n, err = syscall.Read(fd, make([]byte, 100))
		}
	}()
	<-done
	return n, err
}
