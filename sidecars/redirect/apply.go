package redirect

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/redirect/spec"
)

// Config selects the network namespace.
type Config struct {
	// NetNS is a descriptor of the network namespace, which stays the caller's.
	// Zero is the program's own.
	NetNS int
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

// Apply redirects the inbound connections that s selects to s.To, replacing the rules of an
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
