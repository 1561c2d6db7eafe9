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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tunnels/workstation/redirect"
)

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
	said, err := c.pfctl("", "-E")
	if err != nil {
		return "", err
	}
	return redirect.Token(said)
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
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pfctl %s: %w: %.500s", strings.Join(args, " "), err, strings.Join(strings.Fields(string(said)), " "))
	}
	return string(said), nil
}
