package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/tools/wait"
)

// killAPIServer kills that of the node, and starts it again as tools/cluster does.
func (r *onNode) killAPIServer(ctx context.Context) error {
	pid, err := apiServerAt(r.api[strings.LastIndex(r.api, ":")+1:])
	if err != nil {
		return err
	}
	cmd, log, err := likeProcess(pid)
	if err != nil {
		return err
	}
	defer log.Close()
	r.killed[killAPIServer]++
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the API server: %w", err)
	}
	if err := wait.Until(ctx, nodePatience, "the address of the API server is free", func() error {
		l, err := net.Listen("tcp", r.api) //nolint:noctx // it is closed at once
		if err == nil {
			err = l.Close()
		}
		return err
	}); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the API server again: %w", err)
	}
	go func() { _ = cmd.Wait() }() // it outlives this program
	return r.try(ctx, "the API server answers again", func() error { return r.List(ctx, &corev1.NamespaceList{}) })
}

// apiServerAt returns the process of the API server with a port, in the network namespace of this process.
func apiServerAt(port string) (int, error) {
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		program, gone := os.Readlink(filepath.Join(dir, "exe"))
		network, vanished := os.Readlink(filepath.Join(dir, "ns/net"))
		line, unread := os.ReadFile(filepath.Join(dir, "cmdline"))
		if errors.Join(gone, vanished, unread) == nil && network == here && filepath.Base(program) == "kube-apiserver" && slices.Contains(words(line), "--secure-port="+port) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, errors.Join(err, fmt.Errorf("this network has no kube-apiserver with port %s", port))
}

// likeProcess returns the command that starts a process again, with the same log.
func likeProcess(pid int) (*exec.Cmd, *os.File, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	program, err := os.Readlink(filepath.Join(dir, "exe"))
	line, unread := os.ReadFile(filepath.Join(dir, "cmdline"))
	env, unknown := os.ReadFile(filepath.Join(dir, "environ"))
	if err := errors.Join(err, unread, unknown); err != nil {
		return nil, nil, err
	}
	to := filepath.Join(dir, "fd/1")
	if info, err := os.Stat(to); err == nil && !info.Mode().IsRegular() {
		to = os.DevNull // a pipe can end with the process that reads it
	}
	log, err := os.OpenFile(to, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(program) //nolint:noctx // it outlives this program
	cmd.Args, cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = words(line), words(env), "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, log, nil
}

// words splits a text that has a zero after each word.
func words(text []byte) (out []string) {
	for _, w := range bytes.Split(bytes.TrimSuffix(text, []byte{0}), []byte{0}) {
		out = append(out, string(w))
	}
	return out
}
