package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/tools/wait"
)

// killAPIServer kills that of the node, and starts it again as tools/cluster does.
func (r *onNode) killAPIServer(ctx context.Context) error {
	pid, err := apiServerOfNode()
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
	if err := wait.Until(ctx, nodePatience, fmt.Sprintf("process %d ends", pid), func() error {
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
			return errors.New("it runs")
		}
		return nil
	}); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the API server again: %w", err)
	}
	go func() { _ = cmd.Wait() }() // it outlives this program
	return r.try(ctx, "the API server answers again", func() error { return r.List(ctx, &corev1.NamespaceList{}) })
}

// apiServerOfNode returns the process in the network namespace of this one.
func apiServerOfNode() (int, error) {
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return 0, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		program, gone := os.Readlink(filepath.Join(dir, "exe"))
		network, vanished := os.Readlink(filepath.Join(dir, "ns/net"))
		if gone == nil && vanished == nil && network == here && filepath.Base(program) == "kube-apiserver" {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, errors.Join(err, errors.New("this network has no kube-apiserver"))
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
	log, err := os.OpenFile(filepath.Join(dir, "fd/1"), os.O_APPEND|os.O_WRONLY, 0)
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
