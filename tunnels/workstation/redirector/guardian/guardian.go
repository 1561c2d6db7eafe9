package guardian

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Command is the argument with which a program has to call Serve, followed by those of Config.
const Command = "guard-pf"

// patience bounds an answer of a guardian, which may run pfctl twice.
const patience = 2*eachRun + 5*time.Second

// Guardian is a running guardian. Make one with Start.
type Guardian struct {
	cfg     Config
	to      *os.File // closing it ends the guardian
	from    *os.File
	ended   chan struct{}
	mu      sync.Mutex // one order at a time
	closing sync.Once
	closed  chan struct{}
}

// Start starts a guardian, which is Command of the program, and waits until it has begun. The
// error names the remedy.
func Start(program string, cfg Config) (*Guardian, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		_, _ = in.Close(), to.Close()
		return nil, err
	}
	cmd := exec.Command(program, Command, cfg.PFCtl, cfg.Lock, cfg.Anchor)
	cmd.Stdin, cmd.Stdout, cmd.Dir = in, out, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // A signal to this process group does not reach it.
	err = cmd.Start()
	_, _ = in.Close(), out.Close()
	if err != nil {
		_, _ = to.Close(), from.Close()
		return nil, fmt.Errorf("start the guardian, which removes the rules at the end: %w", err)
	}
	g := &Guardian{cfg: cfg, to: to, from: from, ended: make(chan struct{}), closed: make(chan struct{})}
	go g.watch(cmd)
	if err := g.heard(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// watch waits for the guardian, and removes the rules if it was killed.
func (g *Guardian) watch(cmd *exec.Cmd) {
	defer close(g.ended)
	err := cmd.Wait()
	select {
	case <-g.closed:
	default:
		err = errors.New("it ended before us")
	}
	if err == nil {
		return
	}
	lock, err := locked(g.cfg.Lock)
	if err != nil {
		return // it never began, or the rules belong to another guardian already
	}
	defer lock.Close()
	g.cfg.end("")
}

// Load replaces the rules.
func (g *Guardian) Load(rules string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := json.NewEncoder(g.to).Encode(order{rules}); err != nil {
		return fmt.Errorf("the guardian, which loads rules of pf, has ended, so nothing is redirected: connect again (%w)", err)
	}
	return g.heard()
}

// heard returns the guardian's answer.
func (g *Guardian) heard() error {
	_ = g.from.SetReadDeadline(time.Now().Add(patience))
	var a answer
	if err := json.NewDecoder(g.from).Decode(&a); err != nil {
		_ = g.to.Close() // A late answer would be taken for the answer to a later order.
		return fmt.Errorf("the guardian, which loads rules of pf, does not answer: connect again (%w)", err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return nil
}

// Close removes the rules, and returns once that is done.
func (g *Guardian) Close() {
	g.closing.Do(func() {
		close(g.closed)
		_ = g.to.Close()
		<-g.ended
		_ = g.from.Close()
	})
}
