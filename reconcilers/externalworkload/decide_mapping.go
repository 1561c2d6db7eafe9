package externalworkload

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
)

// mapping is the validated spec.tunnel.
type mapping struct {
	// diverted are the container ports to divert into the tunnel, without duplicates, in the order of the
	// spec. A port with an invalid entry is included: its requests fail instead of reaching the baseline.
	diverted []int32
	// right has true for each diverted port with a valid entry, which the tunnel can carry.
	right map[int32]bool
	// accepted is False with the first problem found.
	accepted condition.Condition
}

// mappingOf reads spec.tunnel of a workload with, or without, a baseline.
func mappingOf(spec crdv1.SignadotExternalWorkloadSpec, diverts bool) mapping {
	m := mapping{right: map[int32]bool{}, accepted: condition.True("Accepted", "The spec is valid.")}
	var entries []crdv1.TunnelPort
	if spec.Tunnel != nil {
		entries = spec.Tunnel.BaselineToLocals
	}
	if len(entries) == 0 {
		m.refuse("spec.tunnel.baselineToLocals is empty, so the workstation receives no request: list a port and a local address")
	}
	for i, e := range entries {
		at := fmt.Sprintf("spec.tunnel.baselineToLocals[%d]", i)
		if !isPort(e.BaselinePort) {
			m.refuse(fmt.Sprintf("%s.baselinePort is %d: give a port between 1 and 65535", at, e.BaselinePort))
			continue
		}
		if _, twice := m.right[e.BaselinePort]; twice {
			m.refuse(fmt.Sprintf("%s.baselinePort is %d, as that of an entry before: give each port one local address", at, e.BaselinePort))
			m.right[e.BaselinePort] = false
			continue
		}
		problem := entryProblem(e, diverts)
		if problem != "" {
			m.refuse(at + problem)
		}
		m.diverted = append(m.diverted, e.BaselinePort)
		m.right[e.BaselinePort] = problem == ""
	}
	return m
}

// among returns those of the container ports that are diverted into the tunnel.
func (m *mapping) among(ports []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ports), func(p int32) bool {
		_, diverted := m.right[p]
		return !diverted
	})
}

// refuse records a problem, unless one is recorded already.
func (m *mapping) refuse(message string) {
	if m.accepted.IsTrue() {
		m.accepted = condition.False(baseline.ReasonInvalidSpec, message)
	}
}

// entryProblem returns the problem with one entry, beginning with the field; "" if there is none.
func entryProblem(e crdv1.TunnelPort, diverts bool) string {
	if !isHostPort(e.LocalAddress) {
		return fmt.Sprintf(".localAddress %.80q is not host:port: set an address on the workstation, such as localhost:8080", e.LocalAddress)
	}
	// With a baseline the protocol is that of its Services.
	if e.AppProtocol != "" && !diverts {
		if problems := validation.IsQualifiedName(e.AppProtocol); len(problems) > 0 {
			return fmt.Sprintf(".appProtocol %.80q is not right: %s", e.AppProtocol, problems[0])
		}
	}
	return ""
}

// isPort reports whether a number is that of a port.
func isPort(n int32) bool { return n > 0 && n <= 65535 }

// isHostPort reports whether a text is a host, as a name or an address, and a port. The workstation
// resolves the name, so any valid host name is accepted.
func isHostPort(text string) bool {
	colon := strings.LastIndexByte(text, ':')
	if colon <= 0 {
		return false
	}
	host, port := text[:colon], text[colon+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		address, err := netip.ParseAddr(inner)
		return closed && err == nil && address.Is6()
	}
	return len(host) <= 253 && strings.Trim(host, ".-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
