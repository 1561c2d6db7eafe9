// Package consent decides which local addresses a workstation opens to the cluster.
//
// A sandbox names local addresses, and its author may be another user than that of the
// workstation. So an address is opened only if the user named it (a flag, or the sandbox's file),
// wrote the sandbox's specification, or answered a question about it. Addresses of other hosts
// need a flag that names them. Addresses that all tunnels refuse (policy.Never, loopback excepted) are
// never opened.
//
// That the user wrote the specification is reported by the cluster (tunnel-api). A compromised
// cluster can report it falsely: Policy.DistrustAuthor asks about every address instead.
package consent

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/tunnels/policy"
)

// Request is a local address that a sandbox names.
type Request struct {
	// UID and Sandbox are the sandbox, Workload is its external workload.
	UID, Sandbox, Workload string
	// Address is host:port.
	Address string
	// Own reports whether the user is the last author of the sandbox's specification.
	Own bool
}

// Verdict is whether an address is opened.
type Verdict int

// The verdicts.
const (
	// Refused: it is not opened.
	Refused Verdict = iota
	// Ask: it is not opened before the user has agreed.
	Ask
	// Allowed: it is opened.
	Allowed
)

// Decision is the answer to a Request.
type Decision struct {
	Verdict Verdict
	// Why is the reason if it is not Allowed, without a period.
	Why string
	// Explicit reports whether a flag names the address, so that it may be on another host.
	Explicit bool
}

// Named is an address of one sandbox that the user named.
type Named struct{ Sandbox, Address string }

// Answer is a remembered answer.
type Answer struct {
	UID     string `json:"uid"`
	Address string `json:"address"`
	Allowed bool   `json:"allowed"`
	// Sandbox is the sandbox's name, for people.
	Sandbox string `json:"sandbox,omitempty"`
}

// Policy is the user's consent. Its zero value opens loopback addresses of the user's own
// sandboxes. It is a value: copy it to change it.
type Policy struct {
	// Flags are addresses that flags name, as ParseFlag returns them.
	Flags []string
	// Named are loopback addresses that the user named for single sandboxes.
	Named []Named
	// Answers are the user's answers to earlier questions.
	Answers []Answer
	// DistrustAuthor asks also about sandboxes of which the user is the author.
	DistrustAuthor bool
}

// ParseFlag reads an address that a flag names: host:port, or a port of localhost.
func ParseFlag(text string) (string, error) {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		text = "localhost:" + text
	}
	host, port, ok := split(text)
	if !ok {
		return "", fmt.Errorf("%.80q is not host:port, such as localhost:8080", text)
	}
	if problem := never(host); problem != "" {
		return "", fmt.Errorf("%.80q %s, which is never opened to the cluster", text, problem)
	}
	return join(host, port), nil
}

// Decide returns whether an address is opened.
func (p Policy) Decide(r Request) Decision {
	host, port, ok := split(r.Address)
	if !ok {
		return Decision{Why: fmt.Sprintf("%.80q is not host:port", r.Address)}
	}
	address := join(host, port)
	switch problem := never(host); {
	case problem != "":
		return Decision{Why: address + " " + problem + ", which is never opened to the cluster"}
	case slices.ContainsFunc(p.Flags, func(flag string) bool { return covers(flag, host, port) }):
		return Decision{Verdict: Allowed, Explicit: true}
	case !loopback(host):
		return Decision{Why: fmt.Sprintf("%s is not an address of this machine: open it with --allow %s", address, address)}
	case slices.ContainsFunc(p.Named, func(n Named) bool { return n.Sandbox == r.Sandbox && covers(Canonical(n.Address), host, port) }),
		r.Own && !p.DistrustAuthor:
		return Decision{Verdict: Allowed}
	}
	for _, a := range slices.Backward(p.Answers) {
		if a.UID == r.UID && r.UID != "" && Canonical(a.Address) == address {
			if a.Allowed {
				return Decision{Verdict: Allowed}
			}
			return Decision{Why: fmt.Sprintf("you refused before to open %s for this sandbox, and the answer is kept: open it with --allow %s", address, address)}
		}
	}
	return Decision{Verdict: Ask, Why: fmt.Sprintf("%s is not opened to the cluster: open it with --allow %s", address, address)}
}

// Connectable returns why no connection may be opened to a resolved address; empty: it may.
// explicit is Decision.Explicit.
func Connectable(to netip.Addr, explicit bool) string {
	to = to.Unmap()
	if problem := policy.Never(to, true); problem != "" {
		return problem
	}
	if !explicit && !to.IsLoopback() {
		return "is not an address of this machine"
	}
	return ""
}

// Canonical returns an address in the form that Policies compare; an invalid one is returned
// unchanged.
func Canonical(address string) string {
	if host, port, ok := split(address); ok {
		return join(host, port)
	}
	return address
}

// covers reports whether a canonical address is that of a host and port; localhost covers any
// loopback address that the name resolves to.
func covers(flag, host string, port uint16) bool {
	if flag == join(host, port) {
		return true
	}
	return flag == join("localhost", port) && (host == "127.0.0.1" || host == "::1")
}

// split returns the host of an address, in lower case and without brackets, and its port.
func split(text string) (host string, port uint16, ok bool) {
	colon := strings.LastIndexByte(text, ':')
	if colon <= 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(text[colon+1:], 10, 16)
	host = text[:colon]
	inner, open := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if err != nil || number == 0 || open != closed || inner == "" || !open && strings.Contains(host, ":") {
		return "", 0, false
	}
	host = strings.ToLower(strings.TrimSuffix(inner, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	} else if open || host == "" || strings.Trim(host, ".-_0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return "", 0, false
	}
	return host, uint16(number), true
}

func join(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}

// loopback reports whether a host is this machine by its text alone. A name other than localhost
// is not, regardless of the address that it resolves to.
func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// never returns why a host is never opened; empty: it can be. Names are checked once resolved.
func never(host string) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return policy.Never(a.Unmap(), true)
	}
	return ""
}
