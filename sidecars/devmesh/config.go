package devmesh

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"switchyard.dev/routeserver/table"
)

// Config is what one sidecar's Envoy is made from.
type Config struct {
	// Workload is the baseline that the pod belongs to. Required.
	Workload table.Workload
	// NodeID names the pod in Envoy's logs and config dumps. It is not trusted. Default
	// "devmesh".
	NodeID string
	// RunPath is the folder for the sockets between Envoy and the program that
	// keeps it (XDSSocket and the like). Default RunPath.
	RunPath string
	// ListenIPv6: listen on [::] too, beside 0.0.0.0. Set it where the kernel has IPv6.
	ListenIPv6 bool
	// PlainPorts are ports of the workload with connections that are passed on at once, without
	// inspecting them: those of protocols in which the server speaks first. Default
	// DefaultPlainPorts.
	PlainPorts []uint16
	// Edge: requests come from outside the cluster, and are rid of routing keys.
	Edge bool
	// HeapBytes is how much memory Envoy may use before it sheds load. Default: that of a
	// container that may hold 1 GiB (HeapOf).
	HeapBytes uint64
	// Connections is how many connections Envoy takes at once, and how many it makes to
	// each of its clusters: the application, sandboxes, the program next door. Default: as
	// many as HeapBytes holds when nothing goes on on them. Package keeper lowers it to what
	// the limit of open files allows, for Envoy crashes when it can open no more.
	Connections uint32
}

// DefaultPlainPorts are the registered ports of protocols in which the server
// speaks first: ftp, ssh, smtp, pop3, imap, submission, mysql, nats, vnc.
func DefaultPlainPorts() []uint16 { return []uint16{21, 22, 25, 110, 143, 587, 3306, 4222, 5900} }

// HeapOf returns how much memory Envoy can use, for the memory limit of its container, both in
// bytes: three eighths, which together with memory outside the heap, and the program beside it,
// are half. It is 32 MiB at least, the minimum for Envoy to start.
func HeapOf(container uint64) uint64 { return max(container/8*3, 32<<20) }

// XDSSocket is the unix socket at which Envoy expects its configuration.
func (c Config) XDSSocket() string { return path.Join(c.RunPath, "xds.sock") }

// LateSocket is the unix socket to which Envoy passes connections with a protocol that is not
// known yet; each begins with the original destination, as a PROXY header of version 2.
func (c Config) LateSocket() string { return path.Join(c.RunPath, "late.sock") }

// LateHTTPSocket is the unix socket at which Envoy takes those back that turned
// out to speak HTTP, in the same form.
func (c Config) LateHTTPSocket() string { return path.Join(c.RunPath, "late-http.sock") }

// AdminSocket is the unix socket of Envoy's administration interface. No port is
// opened for it: the application in the same pod has no business there.
func (c Config) AdminSocket() string { return path.Join(c.RunPath, "admin.sock") }

// ControlSocket is the unix socket at which the program that keeps Envoy learns that
// the pod ends.
func (c Config) ControlSocket() string { return path.Join(c.RunPath, "control.sock") }

// WithDefaults sets missing fields to their defaults.
func (c Config) WithDefaults() Config {
	c.NodeID = cmp.Or(c.NodeID, "devmesh")
	c.RunPath = cmp.Or(c.RunPath, RunPath)
	c.HeapBytes = cmp.Or(c.HeapBytes, HeapOf(1<<30))
	c.Connections = cmp.Or(c.Connections, uint32(min(c.HeapBytes/idleHolds, 1<<20)))
	if c.PlainPorts == nil {
		c.PlainPorts = DefaultPlainPorts()
	}
	return c
}

// Validate returns all errors of the configuration at once, or nil. Defaults count as given.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var wrong []error
	if c.Workload.Kind == "" || c.Workload.Namespace == "" || c.Workload.Name == "" {
		wrong = append(wrong, fmt.Errorf("the workload is %q: kind, namespace and name are all needed (%s, %s, %s)",
			c.Workload, EnvWorkloadKind, EnvWorkloadNamespace, EnvWorkloadName))
	}
	for _, text := range []string{c.Workload.Kind, c.Workload.Namespace, c.Workload.Name, c.NodeID, c.RunPath} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			wrong = append(wrong, fmt.Errorf("%q is not text", text))
		}
	}
	if slices.Contains(c.PlainPorts, 0) {
		wrong = append(wrong, errors.New("port 0 does not exist"))
	}
	// A unix socket's path has at most 107 bytes.
	if len(c.LateHTTPSocket()) > 107 {
		wrong = append(wrong, fmt.Errorf("the folder %q is too long a path for sockets in it", c.RunPath))
	}
	return errors.Join(wrong...)
}
