package guardian

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tunnels/workstation/redirect"
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

const (
	// eachRun bounds a run of pfctl.
	eachRun = 10 * time.Second
	// tries bounds the attempts to remove rules, which fail while another program changes some.
	tries = 5
	// between is the pause between them.
	between = 200 * time.Millisecond
)

// Config configures a guardian.
type Config struct {
	// PFCtl is the path of pfctl.
	PFCtl string
	// Lock is the path of a file that a guardian locks, so that there is only one.
	Lock string
	// Anchor is the anchor of the rules.
	Anchor string
}

// order is a message to a guardian. answer is its answer to each, and its first message once it
// runs.
type order struct {
	Rules string `json:"rules"`
}

type answer struct {
	Error string `json:"error,omitempty"`
}

// Serve runs a guardian: it loads the rules of each order until in ends, and then removes them
// all. It ignores signals that would end it.
func Serve(cfg Config, in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	say := func(err error) {
		a := answer{}
		if err != nil {
			a.Error = err.Error()
		}
		_ = json.NewEncoder(out).Encode(a) // An error means that the program has ended.
	}
	lock, err := locked(cfg.Lock)
	if err != nil {
		say(err)
		return err
	}
	defer lock.Close()
	reference, err := cfg.begin()
	defer func() { cfg.end(reference) }()
	say(err)
	if err != nil {
		return err
	}
	for orders := json.NewDecoder(in); ; {
		var o order
		if err := orders.Decode(&o); err != nil {
			return nil // Also in the middle of an order.
		}
		_, err := cfg.pfctl(o.Rules, "-a", cfg.Anchor, "-f", "-")
		say(err)
	}
}

// locked returns a file that is locked until it is closed.
func locked(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock a file, so that there is one connection with privileges at a time: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.New("another program redirects connections of this machine: end the other privileged connection first, since there can be only one")
		}
		return nil, fmt.Errorf("lock %s, so that there is one connection with privileges at a time: %w", path, err)
	}
	return f, nil
}

// begin removes leftovers of an earlier guardian, and enables pf; it returns the reference to pf.
func (c Config) begin() (reference string, err error) {
	if err := c.flush(); err != nil {
		return "", err
	}
	printed, err := c.pfctl("", "-E")
	if err != nil {
		return "", err
	}
	return redirect.Token(printed)
}

// end removes the rules, and releases a reference.
func (c Config) end(reference string) {
	for range tries {
		if c.flush() == nil {
			break
		}
		time.Sleep(between)
	}
	if reference != "" {
		_, _ = c.pfctl("", "-X", reference) // pf stays on, with the rules of others.
	}
}

func (c Config) flush() error {
	_, err := c.pfctl("", "-a", c.Anchor, "-F", "all")
	return err
}

// pfctl runs pfctl, and returns its output.
func (c Config) pfctl(in string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), eachRun)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.PFCtl, args...)
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(in), time.Second
	printed, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pfctl %s: %w: %.500s", strings.Join(args, " "), err, strings.Join(strings.Fields(string(printed)), " "))
	}
	return string(printed), nil
}
