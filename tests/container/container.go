// Package container runs programs in separate file systems, like containers of pods, without a
// container runtime. It needs root. Networks and processes are those of the machine.
package container

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/program"
)

// Bind is a file or a folder that a container has from outside.
type Bind struct{ From, To string }

// Container is where a program runs.
type Container struct {
	// Root is the folder with its file system, which it cannot write. Every place of a Bind,
	// /dev and /tmp are there.
	Root string
	// Dir is a separate directory for the files that the program writes to /tmp and /dev.
	Dir string
	// Binds are the files and directories mounted from outside.
	Binds []Bind
}

// What Dir has.
const (
	devices = "dev"
	scratch = "tmp"
	// endings is the name of the termination message among devices.
	endings = "termination-log"
)

// Start starts a program in the container with the environment env; its output is in the file
// NAME.log in Dir.
func (c Container) Start(name string, env []string, command ...string) (*program.Program, *exec.Cmd, error) {
	cmd := &exec.Cmd{Path: command[0], Args: command, Env: env}
	p, err := c.Run(name, cmd)
	return p, cmd, err
}

// Run starts a program that is described by a command, in the container.
func (c Container) Run(name string, cmd *exec.Cmd) (*program.Program, error) {
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("prepare a container for %s: %w", name, err)
	}
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	return program.Start(c.Dir, name, cmd, func(start func() error) error {
		return podnet.OnOwnThread(func() error {
			if err := c.enter(); err != nil {
				return fmt.Errorf("enter the container of %s: %w", name, err)
			}
			return start()
		})
	})
}

// Ending returns the termination message that was left.
func (c Container) Ending() string {
	text, _ := os.ReadFile(filepath.Join(c.Dir, devices, endings)) // it was made before anything began
	return string(text)
}

func (c Container) prepare() error {
	dev := filepath.Join(c.Dir, devices)
	err := errors.Join(os.MkdirAll(filepath.Join(dev, "shm"), 0o755), os.MkdirAll(filepath.Join(c.Dir, scratch), 0o755),
		os.Chmod(filepath.Join(dev, "shm"), 0o777|os.ModeSticky), os.Chmod(filepath.Join(c.Dir, scratch), 0o777|os.ModeSticky))
	for _, file := range []string{"null", "urandom", endings} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dev, file), nil, 0o666))
	}
	return err
}

// enter brings the thread into the container, for good.
func (c Container) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	bind := func(from, to string) error {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", from, to, err)
		}
		return nil
	}
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), bind(c.Root, c.Root),
		unix.Mount("", c.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	binds := append([]Bind{
		{filepath.Join(c.Dir, scratch), "/tmp"}, {filepath.Join(c.Dir, devices), "/dev"}, {"/dev/null", "/dev/null"}, {"/dev/urandom", "/dev/urandom"},
	}, c.Binds...)
	for _, b := range binds {
		if err == nil {
			err = bind(b.From, filepath.Join(c.Root, b.To))
		}
	}
	if err == nil {
		err = unix.Chroot(c.Root)
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	return err
}
