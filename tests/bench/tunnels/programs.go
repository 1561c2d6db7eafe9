package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"switchyard.dev/tests/bench/tunnels/lab"
)

// Addresses of listeners. The entrances are in the proxy's namespace, and are forwarded to the
// service in the workstation's.
const (
	serviceAddress = "127.0.0.1:9000"
	directAddress  = lab.NearAddress + ":9001"
	entranceHost   = "127.0.0.1"
	entrancePort   = 9100
)

// entrance returns the address that is forwarded to the service over a session; other tunnels
// have the first alone.
func entrance(session int) string { return fmt.Sprintf("%s:%d", entranceHost, entrancePort+session) }

// programs are the processes of one tunnel. They end with us, whatever ends us, since main holds
// the thread that starts them.
type programs struct {
	lab  *lab.Lab
	all  []*exec.Cmd
	near []int // pids at the workstation
	far  []int // pids of the proxy
}

// start starts a program in a namespace. Its log goes to a file.
func (p *programs) start(namespace string, arguments ...string) (*exec.Cmd, error) {
	cmd := exec.Command("ip", append([]string{"netns", "exec", namespace}, arguments...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.CreateTemp("", "bench-tunnels-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	_ = os.Remove(log.Name())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.add(namespace, cmd)
	return cmd, nil
}

func (p *programs) add(namespace string, cmd *exec.Cmd) {
	p.all = append(p.all, cmd)
	if namespace == p.lab.Near {
		p.near = append(p.near, cmd.Process.Pid)
	} else {
		p.far = append(p.far, cmd.Process.Pid)
	}
}

// ourselves starts this program in another role, and waits until it is ready.
func (p *programs) ourselves(namespace string, arguments ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command("ip", append([]string{"netns", "exec", namespace, self}, arguments...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.add(namespace, cmd)
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return fmt.Errorf("%v did not begin: %w", arguments, err)
	}
	return nil
}

// ready reports to the parent process.
func ready() { fmt.Println("ready") }

// await returns once connections to so many entrances reach the service.
func (p *programs) await(entrances int) error {
	for i := range entrances {
		if err := p.awaitOne(entrance(i)); err != nil {
			return err
		}
	}
	return nil
}

func (p *programs) awaitOne(address string) error {
	var err error
	for began := time.Now(); time.Since(began) < 15*time.Second; time.Sleep(100 * time.Millisecond) {
		var c net.Conn
		if c, err = client(p.lab, address, wantEcho); err == nil {
			_ = c.SetDeadline(time.Now().Add(3 * time.Second))
			_, err = c.Write([]byte("x"))
			if err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			_ = c.Close()
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("the tunnel does not come up: %w", err)
}

// Close ends the programs.
func (p *programs) Close() (err error) {
	for _, cmd := range p.all {
		_ = cmd.Process.Kill()
	}
	for _, cmd := range p.all {
		if failed := cmd.Wait(); failed != nil && cmd.ProcessState == nil {
			err = errors.Join(err, failed)
		}
	}
	return err
}
