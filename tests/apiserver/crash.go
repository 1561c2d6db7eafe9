package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/tests/program"
	"switchyard.dev/tools/wait"
)

// Kill ends the API server at once, as a node that is lost would. What etcd holds
// stays; Restart starts the API server again. It needs /proc.
func (s *Server) Kill() error {
	if s.again != nil {
		s.again.Kill()
		s.again = nil
		return nil
	}
	pid, arguments, err := s.find()
	if err != nil {
		return err
	}
	s.arguments = arguments
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the API server: %w", err)
	}
	return wait.Until(context.Background(), patience, fmt.Sprintf("process %d of the API server ends", pid), func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !errors.Is(err, os.ErrNotExist) {
			return errors.New("it is there")
		}
		return nil // envtest has waited for it.
	})
}

// find returns the process that envtest has started for us, and its command line.
func (s *Server) find() (pid int, arguments []string, err error) {
	address, _, err := rest.DefaultServerUrlFor(s.Config)
	if err != nil {
		return 0, nil, err
	}
	port := []byte("--secure-port=" + address.Port())
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return 0, nil, err
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, nil, err
	}
	for _, path := range processes {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, port) || !bytes.Contains(line, []byte("kube-apiserver")) {
			continue // It has ended in the meantime, or is another one.
		}
		// In another network namespace another one may have the port.
		if theirs, err := os.Readlink(filepath.Join(filepath.Dir(path), "ns/net")); err != nil || theirs != network {
			continue
		}
		if pid, err = strconv.Atoi(filepath.Base(filepath.Dir(path))); err != nil {
			return 0, nil, err
		}
		for _, a := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
			arguments = append(arguments, string(a))
		}
		return pid, arguments, nil
	}
	return 0, nil, fmt.Errorf("no process has the API server at %s", s.Config.Host)
}

// Restart starts an API server that was killed again, with the same etcd and the
// same port, and waits until it is ready.
func (s *Server) Restart(ctx context.Context) error {
	if len(s.arguments) == 0 || s.again != nil {
		return errors.New("restart the API server: it was not killed")
	}
	cmd := exec.Command(s.arguments[0], s.arguments[1:]...)
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	again, err := program.Start("", "the API server", cmd, nil)
	if err != nil {
		return err
	}
	s.again = again
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	return wait.Until(ctx, patience, "the API server is ready again", func() error {
		return kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// stopAgain ends an API server that was restarted.
func (s *Server) stopAgain() {
	if s.again != nil {
		_ = s.again.Terminate(patience) // How it ends is of no interest.
		s.again = nil
	}
}
