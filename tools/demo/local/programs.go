package local

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"switchyard.dev/tools/cache"
	"switchyard.dev/tools/demo"
)

//go:embed developer.yaml sandbox.yaml
var manifests embed.FS

// Sandbox is the name of the sandbox in sandbox.yaml, and its routing key.
const Sandbox = "laptop"

// Programs are those of this machine that the story runs, by their main packages.
var Programs = map[string]string{"switchyard": "./tools/cmd/switchyard", "customer": "./tools/demo/cmd/customer"}

// Program returns the path of one of Programs, once Build has made it.
func Program(name string) string { return filepath.Join(cache.Dir(), "tools", "local", name) }

// Build makes the programs of the workstation; root is the repository's.
func Build(ctx context.Context, root string) error {
	for name, main := range Programs {
		build := exec.CommandContext(ctx, "go", "build", "-o", Program(name), main)
		build.Dir, build.Stderr = root, os.Stderr
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// Prepare makes the cluster with Switchyard and HotROD, and the programs of the workstation.
func Prepare(ctx context.Context, c demo.Config) error {
	if err := Build(ctx, c.Root); err != nil {
		return err
	}
	return demo.Prepare(ctx, c)
}

// Sandbox writes the file of the developer's sandbox, in which HotROD's customer is a process of
// the workstation.
func (w *Workstation) Sandbox() (file, text string, err error) {
	file = filepath.Join(w.folder, "sandbox.yaml")
	content, err := manifests.ReadFile("sandbox.yaml")
	if err == nil {
		err = put(file, content)
	}
	return file, string(content), err
}

// Put writes a file of the developer.
func (w *Workstation) Put(name string, text []byte) error { return put(w.File(name), text) }

// Process is a program that runs on the workstation until it is stopped.
type Process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// Start runs a program in a separate process group and appends its output to the log of the given
// name.
func (w *Workstation) Start(ctx context.Context, log string, argv ...string) (*Process, error) {
	p := &Process{cmd: w.Command(ctx, argv...), log: filepath.Join(w.folder, log+".log"), ended: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	to, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	p.cmd.Stdout, p.cmd.Stderr = to, to
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }() // It is interrupted, in the end.
	return p, nil
}

// Stop ends the program as Ctrl-C does, and returns what the log has.
func (p *Process) Stop() (said string, err error) {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) // It may have ended.
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
	text, err := os.ReadFile(p.log)
	return string(text), err
}
