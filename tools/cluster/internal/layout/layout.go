// Package layout defines the names, addresses and paths of one node. It is pure; it touches no
// disk.
//
// There are two directories. The cache contains compiled programs and is never removed by `down`,
// so that a second start is quick. The state directory contains the data of the running node (keys,
// data, sockets, logs) and is removed by `down`. Several checkouts of the project share both, and
// so one cluster.
package layout

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
)

// Config is what a person may choose. The zero value of each field means its default.
type Config struct {
	// Name is the name of the node and of its network namespace. Default "switchyard". Two nodes on one machine need two
	// names and two state directories.
	Name string
	// State is the directory for run-time state. Default /var/lib/switchyard.
	State string
	// Cache is the directory for compiled programs. Default
	// $XDG_CACHE_HOME/switchyard or ~/.cache/switchyard.
	Cache string
	// NodeIP is the address of the node inside its network namespace, with the
	// prefix length of the node network. Default 10.77.0.1/24.
	NodeIP string
	// PodCIDR is the range of pod addresses. Default 10.244.0.0/24.
	PodCIDR string
	// ServiceCIDR is the range of Service addresses. Default 10.96.0.0/16. The
	// API server has the first address of it, the DNS server the tenth.
	ServiceCIDR string
	// Volumes is the number of local PersistentVolumes. Default 16.
	Volumes int
}

// Node is a checked Config, with every default filled in and addresses parsed.
type Node struct {
	// Name is the node's name.
	Name string
	// State, Cache are absolute directories.
	State, Cache string
	// Address is the node's own address and Network its prefix.
	Address netip.Addr
	Network netip.Prefix
	// Pods and Services are the two address ranges.
	Pods, Services netip.Prefix
	// Volumes is the number of local volumes.
	Volumes int
}

// Domain is the DNS domain of the cluster.
const Domain = "cluster.local"

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// New fills in defaults, checks the configuration and returns the node it
// describes. env looks up an environment variable; home is the home directory
// of the user. All faults are reported together.
func New(c Config, env func(string) string, home string) (Node, error) {
	cacheHome := cmp.Or(env("XDG_CACHE_HOME"), filepath.Join(home, ".cache"))
	c.Name = cmp.Or(c.Name, env("SWITCHYARD_NODE"), "switchyard")
	c.State = cmp.Or(c.State, env("SWITCHYARD_STATE"), "/var/lib/switchyard")
	c.Cache = cmp.Or(c.Cache, env("SWITCHYARD_CACHE"), filepath.Join(cacheHome, "switchyard"))
	c.NodeIP = cmp.Or(c.NodeIP, "10.77.0.1/24")
	c.PodCIDR = cmp.Or(c.PodCIDR, "10.244.0.0/24")
	c.ServiceCIDR = cmp.Or(c.ServiceCIDR, "10.96.0.0/16")
	c.Volumes = cmp.Or(c.Volumes, 16)
	return c.check()
}

func (c Config) check() (Node, error) {
	n := Node{Name: c.Name, State: filepath.Clean(c.State), Cache: filepath.Clean(c.Cache), Volumes: c.Volumes}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !validName.MatchString(c.Name) {
		fault("name %q: use up to 32 small letters, digits and dashes", c.Name)
	}
	for what, dir := range map[string]string{"state": n.State, "cache": n.Cache} {
		if !filepath.IsAbs(dir) || dir == "/" {
			fault("%s directory %q: give an absolute path below /", what, dir)
		}
	}
	if node, err := netip.ParsePrefix(c.NodeIP); err != nil {
		fault("node address %q: give an address with a prefix length, like 10.77.0.1/24", c.NodeIP)
	} else {
		n.Address, n.Network = node.Addr(), node
	}
	n.Pods = prefix("pod range", c.PodCIDR, fault)
	n.Services = prefix("service range", c.ServiceCIDR, fault)
	if c.Volumes < 0 || c.Volumes > 100 {
		fault("%d volumes: choose 1 to 100", c.Volumes)
	}
	return n, errors.Join(faults...)
}

func prefix(what, text string, fault func(string, ...any)) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p != p.Masked() {
		fault("%s %q: give an IPv4 range like 10.96.0.0/16", what, text)
	}
	return p
}

// Dir is the directory of all run-time state of the node. `down` removes it.
func (n Node) Dir(elem ...string) string {
	return filepath.Join(append([]string{n.State, "node"}, elem...)...)
}

// Bin is the stable name of the directory of compiled programs: a link to the
// directory of the recipe that was built last.
func (n Node) Bin() string { return filepath.Join(n.Cache, "bin", "current") }

// Kubeconfig is the path of the administrator's kubeconfig.
func (n Node) Kubeconfig() string { return n.Dir("admin.kubeconfig") }

// KubectlCache is the folder in which kubectl and Helm keep what kinds of objects
// there are. They file it by the API server's address, which all nodes share.
func (n Node) KubectlCache() string { return n.Dir("kubectl-cache") }

// NetNS is the path that names the network namespace, where `ip netns` looks too.
func (n Node) NetNS() string { return filepath.Join("/run/netns", n.Name) }

// Cgroup is the name of the cgroup above the pods of the node. It never is one
// that another program uses, whatever the node is called.
func (n Node) Cgroup() string { return "node-" + n.Name }

// Containerd is the path of the container runtime's socket.
func (n Node) Containerd() string { return n.Dir("containerd.sock") }

// Log is the path of the log of one part.
func (n Node) Log(part string) string { return n.Dir("logs", part+".log") }

// APIServer is the URL of the API server inside the network namespace.
func (n Node) APIServer() string { return "https://" + n.Address.String() + ":6443" }

// APIServiceIP is the cluster address of the API server: the first of the range.
func (n Node) APIServiceIP() netip.Addr { return nth(n.Services, 1) }

// DNSServiceIP is the cluster address of the DNS server: the tenth of the range.
func (n Node) DNSServiceIP() netip.Addr { return nth(n.Services, 10) }

// Gateway is the address that the default route of the node points to. Nothing
// answers there: the route only exists so that the kernel takes packets for
// Service addresses as far as the rules that rewrite them.
func (n Node) Gateway() netip.Addr {
	gateway := n.Network.Masked().Addr().Next()
	if gateway == n.Address {
		return gateway.Next()
	}
	return gateway
}

func nth(p netip.Prefix, count int) netip.Addr {
	a := p.Masked().Addr()
	for range count {
		a = a.Next()
	}
	return a
}
