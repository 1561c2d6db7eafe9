package explain

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"switchyard.dev/routeserver/table"
)

// Destination is what a client addresses: a Service by name, or an address.
type Destination struct {
	// Service and Namespace name a Service, in lower case. Namespace is empty for
	// a short name, which the client's own namespace completes.
	Service, Namespace string
	// Address is set instead when the client names an IP address.
	Address netip.Addr
	// Port is 0 when none is named.
	Port uint32
}

// ParseDestination parses host:port as a client would write it: a Service's short or long name, or
// an IP address; the port is optional, and a scheme and a path are ignored. The error is the reason
// why it names no Service.
func ParseDestination(s string) (Destination, error) {
	_, rest, hasScheme := strings.Cut(s, "://")
	if !hasScheme {
		rest = s
	}
	rest, _, _ = strings.Cut(rest, "/")
	host, port, err := splitPort(rest)
	if err != nil {
		return Destination{}, fmt.Errorf("destination %q: %w", s, err)
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return Destination{Address: address.Unmap(), Port: port}, nil
	}
	d := Destination{Port: port}
	if d.Service, d.Namespace, err = serviceOf(strings.ToLower(strings.TrimSuffix(host, "."))); err != nil {
		return Destination{}, fmt.Errorf("destination %q: %w", s, err)
	}
	return d, nil
}

// splitPort takes the port from the end of an authority. IPv6 addresses stand in
// brackets when there is one.
func splitPort(s string) (host string, port uint32, err error) {
	if inner, rest, bracketed := strings.Cut(strings.TrimPrefix(s, "["), "]"); bracketed && strings.HasPrefix(s, "[") {
		host, s = inner, rest
		if s == "" {
			return host, 0, nil
		}
	} else if strings.Count(s, ":") == 1 {
		host, s, _ = strings.Cut(s, ":")
		s = ":" + s
	} else {
		return s, 0, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(s, ":"), 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q is not a port; write host:port", strings.TrimPrefix(s, ":"))
	}
	return host, uint32(n), nil
}

// serviceOf reads the name of a Service: service, service.namespace,
// service.namespace.svc with or without the cluster's domain, or a host of a
// headless one (host.service.namespace.svc…).
func serviceOf(host string) (service, namespace string, err error) {
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" {
			return "", "", fmt.Errorf("%q is not a host name", host)
		}
	}
	switch {
	case len(labels) == 1:
		return labels[0], "", nil
	case len(labels) == 2 || labels[2] == "svc":
		return labels[0], labels[1], nil
	case len(labels) > 3 && labels[3] == "svc":
		return labels[1], labels[2], nil
	}
	return "", "", fmt.Errorf("%q does not name a Service in this cluster (service.namespace.svc)", host)
}

// String writes the destination as a client would.
func (d Destination) String() string {
	host := d.Service
	switch {
	case d.Address.IsValid():
		host = d.Address.String()
	case d.Namespace != "":
		host += "." + d.Namespace
	}
	if d.Port == 0 {
		return host
	}
	if d.Address.Is6() {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.FormatUint(uint64(d.Port), 10)
}

// Place is one thing that is known of a Service: requests to a port of it reach
// a port of a baseline.
type Place struct {
	Namespace, Service string
	Port               uint32
	Baseline           table.Workload
	WorkloadPort       uint32
}
