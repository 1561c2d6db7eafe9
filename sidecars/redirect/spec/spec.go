// Package spec describes which of a pod's inbound connections go through its sidecar, or which that
// its scripts open go through the proxy of a runner of jobs. The injecting webhook, or the controller of
// runner groups, writes it into the environment of the redirecting init container, and the
// init container reads it back, so both sides share this package and nothing else.
//
// It is pure. The rules it describes are applied by package redirect.
package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/eventbus/lists"
)

// The environment variables of the init container.
const (
	// EnvPorts holds the TCP ports to redirect, separated by commas, or All.
	EnvPorts = "SWITCHYARD_REDIRECT_PORTS"
	// EnvExcept holds the TCP ports that stay untouched, separated by commas.
	EnvExcept = "SWITCHYARD_REDIRECT_EXCEPT"
	// EnvTo holds the port the sidecar listens on.
	EnvTo = "SWITCHYARD_REDIRECT_TO"
	// EnvMode holds the Mode; empty or missing is ModeAuto.
	EnvMode = "SWITCHYARD_REDIRECT_MODE"
	// EnvOutgoing holds the user of the proxy of outgoing connections; empty or missing is inbound.
	EnvOutgoing = "SWITCHYARD_REDIRECT_OUTGOING_EXCEPT_USER"
	// EnvDone holds the folder that records outgoing redirection.
	EnvDone = "SWITCHYARD_REDIRECT_DONE"
)

// Mode chooses between nftables and legacy iptables. Its values are those of the chart's
// routing.iptablesMode.
type Mode string

// The modes.
const (
	// ModeAuto takes nftables where the kernel has it, and legacy iptables where
	// it does not.
	ModeAuto Mode = "auto"
	// ModeNFT takes nftables.
	ModeNFT Mode = "nft"
	// ModeLegacy takes the tables of legacy iptables.
	ModeLegacy Mode = "legacy"
)

// ParseMode reads a Mode; empty is ModeAuto.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(strings.TrimSpace(text)); m {
	case "":
		return ModeAuto, nil
	case ModeAuto, ModeNFT, ModeLegacy:
		return m, nil
	}
	return "", fmt.Errorf("%q is no way to redirect: use %s, %s or %s", text, ModeAuto, ModeNFT, ModeLegacy)
}

// All is the value of EnvPorts for every TCP port. It is a word and not an empty string, so
// that a lost variable is an error and never "redirect everything" or "redirect nothing".
const All = "all"

// MaxPorts bounds the number of ports one pod can name: far above any real
// workload, and small enough to keep the rules readable.
const MaxPorts = 256

// Spec selects the inbound TCP connections of a pod that go to its sidecar.
type Spec struct {
	// All redirects every TCP port but those in Except.
	All bool
	// Ports are the TCP ports to redirect, ascending, when All is false.
	Ports []uint16
	// Except are TCP ports never redirected, ascending; they win over Ports and
	// All. The sidecar's own ports belong here.
	Except []uint16
	// To is the port the sidecar listens on.
	To uint16
	// Mode selects the part of the kernel; empty is ModeAuto.
	Mode Mode
	// Outgoing selects the connections that processes of the pod open to other addresses, instead of
	// inbound ones, except those of this user, which the proxy runs as. 0: inbound. It takes nftables.
	Outgoing uint32
	// Done is a folder that is created when outgoing connections are redirected. A kernel that cannot
	// redirect them is no error then.
	Done string
}

// Validate returns an error if the Spec is not valid.
func (s Spec) Validate() error {
	switch {
	case s.To == 0:
		return fmt.Errorf("no port to redirect to: set %s", EnvTo)
	case s.All && len(s.Ports) > 0:
		return fmt.Errorf("both all ports and ports %v are to be redirected: choose one in %s", s.Ports, EnvPorts)
	case !s.All && len(s.Ports) == 0:
		return fmt.Errorf("no port to redirect: name them in %s, or %q", EnvPorts, All)
	case len(s.Ports) > MaxPorts || len(s.Except) > MaxPorts:
		return fmt.Errorf("more than %d ports in %s or %s", MaxPorts, EnvPorts, EnvExcept)
	case slices.Contains(s.Ports, 0) || slices.Contains(s.Except, 0):
		return fmt.Errorf("port 0 in %s or %s: ports are 1 to 65535", EnvPorts, EnvExcept)
	case slices.Contains(s.Ports, s.To):
		return fmt.Errorf("port %d is the sidecar's own and cannot be redirected to itself", s.To)
	case s.Outgoing != 0 && s.Mode == ModeLegacy:
		return fmt.Errorf("outgoing connections cannot be redirected with legacy iptables: remove %s, or set %s to %s", EnvOutgoing, EnvMode, ModeNFT)
	case s.Outgoing == 0 && s.Done != "":
		return fmt.Errorf("%s is for outgoing connections: set %s too", EnvDone, EnvOutgoing)
	}
	if _, err := ParseMode(string(s.Mode)); err != nil {
		return fmt.Errorf("%s: %w", EnvMode, err)
	}
	return nil
}

// Env returns the variables that carry a Spec, name to value, for Parse to read.
func (s Spec) Env() map[string]string {
	ports := All
	if !s.All {
		ports = Join(s.Ports)
	}
	env := map[string]string{
		EnvPorts:  ports,
		EnvExcept: Join(s.Except),
		EnvTo:     strconv.Itoa(int(s.To)),
		EnvMode:   string(cmp.Or(s.Mode, ModeAuto)),
	}
	if s.Outgoing != 0 {
		env[EnvOutgoing], env[EnvDone] = strconv.FormatUint(uint64(s.Outgoing), 10), s.Done
	}
	return env
}

// Parse reads a Spec from environment variables; get returns a variable's value, empty when it
// is not set. The result is valid; otherwise the error names the variable to correct.
func Parse(get func(string) string) (Spec, error) {
	var s Spec
	if ports := strings.TrimSpace(get(EnvPorts)); ports == All {
		s.All = true
	} else {
		var err error
		if s.Ports, err = Split(ports); err != nil {
			return Spec{}, fmt.Errorf("%s: %w", EnvPorts, err)
		}
	}
	var err error
	if s.Except, err = Split(get(EnvExcept)); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", EnvExcept, err)
	}
	to, err := Split(get(EnvTo))
	if err != nil || len(to) != 1 {
		return Spec{}, fmt.Errorf("%s must hold one port, 1 to 65535, not %q", EnvTo, get(EnvTo))
	}
	s.To = to[0]
	if s.Mode, err = ParseMode(get(EnvMode)); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", EnvMode, err)
	}
	if user := get(EnvOutgoing); user != "" {
		n, err := strconv.ParseUint(user, 10, 32)
		if err != nil || n == 0 {
			return Spec{}, fmt.Errorf("%s is %q, and no number of a user other than root", EnvOutgoing, user)
		}
		s.Outgoing = uint32(n)
	}
	s.Done = get(EnvDone)
	return s, s.Validate()
}

// Split reads ports separated by commas; blanks around them are passed over, as
// are empty items. The result is ascending and without repetition.
func Split(list string) ([]uint16, error) {
	var ports []uint16
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		port, err := strconv.ParseUint(item, 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("%q is not a port: write numbers from 1 to 65535, separated by commas", item)
		}
		ports = append(ports, uint16(port))
	}
	return Normalize(ports), nil
}

// Join writes ports as Split reads them.
func Join(ports []uint16) string {
	items := make([]string, len(ports))
	for i, port := range ports {
		items[i] = strconv.Itoa(int(port))
	}
	return strings.Join(items, ",")
}

// Normalize sorts ports and removes repetitions, in place.
func Normalize(ports []uint16) []uint16 {
	return lists.Unique(ports)
}
