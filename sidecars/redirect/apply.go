package redirect

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/sidecars/redirect/xtables"
)

// Config selects the network namespace.
type Config struct {
	// NetNS is a descriptor of the network namespace, which stays the caller's.
	// Zero is the program's own.
	NetNS int
	// hook is that of the Spec.
	hook hook
}

// Result describes the rules in force.
type Result struct {
	// Mode is ModeNFT or ModeLegacy.
	Mode spec.Mode
	// Why explains the mode, for people.
	Why string
	// Rules are those in force, as text for a log.
	Rules []string
}

// Apply redirects the connections that s selects to s.To, replacing the rules of an
// earlier call in the same mode. On error nothing has changed, unless the error states that
// rules were written.
func Apply(s spec.Spec, cfg Config) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, err
	}
	mode, err := spec.ParseMode(string(s.Mode))
	if err != nil {
		return Result{}, err
	}
	if s.Outgoing != 0 {
		cfg.hook = outgoing
		rules, err := cfg.nft(s)
		return Result{Mode: spec.ModeNFT, Why: "outgoing connections take nftables", Rules: rules}, err
	}
	switch mode {
	case spec.ModeNFT:
		rules, err := cfg.nft(s)
		return Result{Mode: mode, Why: "set by routing.iptablesMode", Rules: rules}, err
	case spec.ModeLegacy:
		rules, err := cfg.legacy(s)
		return Result{Mode: mode, Why: "set by routing.iptablesMode", Rules: rules}, err
	}
	return cfg.auto(s)
}

// auto takes nftables where the kernel has it, and legacy iptables where it does
// not. Any other fault of nftables is an error: the other way would meet it too,
// or hide it.
func (c Config) auto(s spec.Spec) (Result, error) {
	rules, why := c.nft(s)
	if why == nil {
		return Result{Mode: spec.ModeNFT, Why: "the kernel has nftables with NAT", Rules: rules}, nil
	}
	if !lacking(why) {
		return Result{}, why
	}
	rules, err := c.legacy(s)
	if err != nil {
		return Result{}, fmt.Errorf("this node can redirect neither way. With nftables: %w. With legacy iptables: %w", why, err)
	}
	return Result{Mode: spec.ModeLegacy, Why: "no nftables: " + why.Error(), Rules: rules}, nil
}

// What the kernel is to have for each way.
const (
	nftWants    = "nf_tables with NAT: load the modules nf_tables, nft_chain_nat and nft_redir on the node"
	legacyWants = "legacy iptables with NAT: load the modules iptable_nat, ip6table_nat, xt_tcpudp and xt_REDIRECT on the node"
)

// lacking reports whether an error means that the kernel does not have a feature. EBUSY is that
// of kernels before 4.18, where only one of the two modes can change destinations.
func lacking(err error) bool {
	for _, e := range []unix.Errno{unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ENOPROTOOPT,
		unix.ENOENT, unix.EINVAL, unix.EBUSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Unsupported reports whether an error of Apply means that the kernel does not have redirection, or that this program has
// no right to it. Nothing is redirected then.
func Unsupported(err error) bool { return lacking(err) || errors.Is(err, unix.EPERM) }

// unread returns the error of rules that were written and cannot be read back. It does not wrap the kernel's, by which no
// caller is to take the rules for unsupported.
func unread(err error) error {
	return errors.New("rules were written but cannot be read back: " + err.Error())
}

// explain adds the remedy to an error of the kernel. wants is the required feature.
func explain(err error, wants string) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("no right to change the pod's network rules: the init container needs the capability NET_ADMIN and user 0: %w", err)
	case lacking(err):
		return fmt.Errorf("this node's kernel lacks %s: %w", wants, err)
	}
	return fmt.Errorf("the kernel refused the rules: %w", err)
}

// legacyChain is the name of our chain in the nat tables of legacy iptables.
const legacyChain = "SWITCHYARD_INBOUND"

// attempts is how often a table is read and replaced when another program
// changes it in between.
const attempts = 5

// tables is one family's table in the kernel, with the socket to access it.
type tables struct {
	xtables.Family
	domain, level int
	fd            int
}

// legacy makes the rules with legacy iptables, in the table of each family, and
// gives them as text.
func (c Config) legacy(s spec.Spec) (texts []string, err error) {
	err = c.inside(func() error {
		open, notes, err := openTables()
		defer func() {
			for _, t := range open {
				_ = unix.Close(t.fd) // nothing waits in it
			}
		}()
		if err != nil {
			return explain(err, legacyWants)
		}
		rules := legacyRules(s)
		for _, t := range open {
			if err := t.apply(rules); err != nil {
				return err
			}
		}
		for _, r := range rules {
			texts = append(texts, r.String())
		}
		texts = append(texts, notes...)
		return nil
	})
	return texts, err
}

// legacyRules returns a Spec as rules of legacy iptables, in order.
func legacyRules(s spec.Spec) []xtables.Rule {
	rules := []xtables.Rule{{Loopback: true}}
	for _, port := range s.Except {
		rules = append(rules, xtables.Rule{TCP: true, Port: port})
	}
	for _, port := range s.Ports {
		rules = append(rules, xtables.Rule{TCP: true, Port: port, Opening: true, To: s.To})
	}
	if s.All {
		rules = append(rules, xtables.Rule{TCP: true, Opening: true, To: s.To})
	}
	return rules
}

// inside runs f in the network namespace of the Config.
func (c Config) inside(f func() error) error {
	if c.NetNS == 0 {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(c.NetNS, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// openTables opens the tables of both families before any is changed. In a pod without an IPv6
// address, the table for IPv6 may be missing: a note then reports that.
func openTables() (open []tables, notes []string, err error) {
	for _, t := range []tables{
		{Family: xtables.IPv4(), domain: unix.AF_INET, level: unix.SOL_IP},
		{Family: xtables.IPv6(), domain: unix.AF_INET6, level: unix.SOL_IPV6},
	} {
		// Any socket serves; a raw one would take a capability more.
		if t.fd, err = unix.Socket(t.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
			if _, err = t.read(); err != nil {
				_ = unix.Close(t.fd)
			}
		}
		switch {
		case err == nil:
			open = append(open, t)
		case t.domain == unix.AF_INET6 && lacking(err) && !reachedByIPv6():
			notes = append(notes, fmt.Sprintf("nothing for IPv6, by which the pod has no address: %v", err))
		default:
			return open, notes, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return open, notes, nil
}

// reachedByIPv6 reports whether the pod has an address of IPv6 that is known beyond
// its own link. One that cannot be asked has.
func reachedByIPv6() bool {
	addresses, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.To4() == nil && network.IP.IsGlobalUnicast()
	})
}

// apply puts our chain with these rules into the table, with comments where the
// kernel knows them, and reads it back.
func (t tables) apply(rules []xtables.Rule) error {
	tagged := true
	err := t.replace(rules, tagged)
	if errors.Is(err, unix.ENOENT) {
		tagged = false
		err = t.replace(rules, tagged)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, explain(err, legacyWants))
	}
	return t.verify(rules, tagged)
}

// replace writes the table with our chain, in one step.
func (t tables) replace(rules []xtables.Rule, tagged bool) (err error) {
	for range attempts {
		var table *xtables.Table
		if table, err = t.read(); err != nil {
			return err
		}
		now := table.Len()
		table.Set(legacyChain, rules, tagged)
		if err = t.write(table, now); !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
	return fmt.Errorf("another program kept changing the table: %w", err)
}

// verify reads the table back and compares the chain with the intended rules.
func (t tables) verify(rules []xtables.Rule, tagged bool) error {
	table, err := t.read()
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, unread(err))
	}
	got, first := table.Chain(legacyChain)
	if !first || !slices.EqualFunc(got, t.Entries(rules, tagged), bytes.Equal) {
		return fmt.Errorf("%s: rules were written, but those read back differ; does another program change chain %s, or put one before it?",
			t.Name, legacyChain)
	}
	return nil
}

// read returns the table as the kernel has it.
func (t tables) read() (*xtables.Table, error) {
	for range attempts {
		info := xtables.AskShape()
		if err := t.ask(xtables.InfoOption, info); err != nil {
			return nil, err
		}
		shape, err := xtables.ParseShape(info)
		if err != nil {
			return nil, err
		}
		entries := xtables.AskEntries(shape)
		err = t.ask(xtables.EntriesOption, entries)
		if errors.Is(err, unix.EAGAIN) {
			continue // It has changed since.
		}
		if err != nil {
			return nil, err
		}
		return xtables.Parse(t.Family, shape, entries[xtables.EntriesHead:])
	}
	return nil, fmt.Errorf("another program kept changing the table: %w", unix.EAGAIN)
}

// ask fills an answer, which contains the request.
func (t tables) ask(option int, answer []byte) error {
	size := uint32(len(answer))
	//nolint:gosec // package unix has no call that fills so large an answer
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(t.fd), uintptr(t.level), uintptr(option),
		uintptr(unsafe.Pointer(&answer[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// write replaces the kernel's table, which has so many entries now.
func (t tables) write(table *xtables.Table, now int) error {
	counters := make([]byte, now*xtables.CounterSize)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&counters[0])
	//nolint:gosec // the kernel writes there during the call alone, and the room is pinned
	request := table.Request(now, uint64(uintptr(unsafe.Pointer(&counters[0]))))
	return unix.SetsockoptString(t.fd, t.level, xtables.ReplaceOption, string(request))
}
