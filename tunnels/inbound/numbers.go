package inbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// numbers are the ports of this pod that external workloads have, or had until recently. No other
// workload gets one of them, since nodes may still route requests to it. They are kept in a file
// because the process may crash and start again at the same address, before nodes are updated.
type numbers struct {
	// file stores them; empty: they are lost with the process.
	file   string
	keep   time.Duration
	logger *slog.Logger
	of     map[number]*kept
	taken  map[int]number
	// choose opens a port of the system's choice.
	choose func(host string) (net.Listener, error)
}

func chosenBySystem(host string) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(host, "0"))
}

// number identifies a port: an external workload and a port of its baseline.
type number struct {
	UID  string `json:"uid"`
	Port int32  `json:"port"`
}

// kept is the port of this pod for a number.
type kept struct {
	number
	Here int `json:"here"`
	// Until is when another workload may have it; zero: not while it is open.
	Until time.Time `json:"until,omitzero"`
}

const (
	// tries is how many ports of the system's choice are tried.
	tries = 64
	// mostKept bounds the reserved ports.
	mostKept = 2 * maxPorts
)

// newNumbers reads the numbers of the previous process.
func newNumbers(file string, keep time.Duration, logger *slog.Logger) (*numbers, error) {
	n := &numbers{file: file, keep: keep, logger: logger, of: map[number]*kept{}, taken: map[int]number{}, choose: chosenBySystem}
	if file == "" {
		return n, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ports of tunnels: %w", err)
	}
	var all []kept
	if err := json.Unmarshal(text, &all); err != nil {
		logger.Error("the ports of tunnels before cannot be read; one of them may be given to another tunnel", "file", file, "error", err)
		return n, nil
	}
	for _, k := range all {
		if k.Until.IsZero() {
			k.Until = time.Now().Add(keep)
		}
		n.of[k.number], n.taken[k.Here] = &k, k.number
	}
	return n, nil
}

// listen opens the port of a number: the one it had before, or one that no other number had
// recently.
func (n *numbers) listen(host string, of number) (net.Listener, error) {
	n.expire()
	if had := n.of[of]; had != nil {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(had.Here)))
		if err == nil {
			had.Until = time.Time{}
			n.save()
			return l, nil
		}
		n.logger.Warn("the port that a tunnel had cannot be opened again; it gets another one", "port", had.Here, "error", err)
		n.forget(had)
	}
	var refused []net.Listener
	defer func() {
		for _, l := range refused {
			_ = l.Close() // it was only opened so that another port is chosen
		}
	}()
	for range tries {
		l, err := n.choose(host)
		if err != nil {
			return nil, err
		}
		here := l.Addr().(*net.TCPAddr).Port
		if _, is := n.taken[here]; is {
			refused = append(refused, l)
			continue
		}
		n.of[of], n.taken[here] = &kept{number: of, Here: here}, of
		n.save()
		return l, nil
	}
	return nil, errors.New("all free ports were used for other workloads recently")
}

// closed records that a port was closed.
func (n *numbers) closed(of number) {
	if k := n.of[of]; k != nil {
		k.Until = time.Now().Add(n.keep)
		n.save()
	}
}

// expire drops ports with an expired reservation, and when there are too many the one that was
// closed first.
func (n *numbers) expire() {
	now := time.Now()
	var first *kept
	for _, k := range n.of {
		switch {
		case k.Until.IsZero():
		case now.After(k.Until):
			n.forget(k)
		case first == nil || k.Until.Before(first.Until):
			first = k
		}
	}
	if len(n.of) >= mostKept && first != nil {
		n.forget(first)
	}
}

func (n *numbers) forget(k *kept) {
	delete(n.taken, k.Here)
	delete(n.of, k.number)
}

// save writes them for the next process of this pod. They are not synced: a write survives the
// process, and after a crash of the node its pods start with other addresses, as a rule.
func (n *numbers) save() {
	if n.file == "" {
		return
	}
	all := make([]kept, 0, len(n.of))
	for _, k := range n.of {
		all = append(all, *k)
	}
	text, err := json.Marshal(all)
	next := filepath.Join(filepath.Dir(n.file), "."+filepath.Base(n.file))
	if err == nil {
		err = os.WriteFile(next, text, 0o600)
	}
	if err == nil {
		err = os.Rename(next, n.file)
	}
	if err != nil {
		n.logger.Error("the ports of tunnels cannot be kept; after a restart one may be given to another tunnel", "file", n.file, "error", err)
	}
}
