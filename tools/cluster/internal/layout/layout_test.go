package layout

import (
	"strings"
	"testing"
)

func env(pairs ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == key {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestNew(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		env    func(string) string
		check  func(Node) string
		want   string
	}{
		"without anything the cache is below the home directory": {
			env: env(), check: func(n Node) string { return n.Bin() }, want: "/home/x/.cache/switchyard/bin/current"},
		"XDG_CACHE_HOME moves the cache": {
			env: env("XDG_CACHE_HOME", "/c"), check: func(n Node) string { return n.Cache }, want: "/c/switchyard"},
		"SWITCHYARD_CACHE is stronger than XDG_CACHE_HOME": {
			env: env("XDG_CACHE_HOME", "/c", "SWITCHYARD_CACHE", "/s"), check: func(n Node) string { return n.Cache }, want: "/s"},
		"a given directory is stronger than the environment": {
			config: Config{State: "/given"}, env: env("SWITCHYARD_STATE", "/env"),
			check: func(n Node) string { return n.Dir("pki") }, want: "/given/node/pki"},
		"the DNS server has the tenth address of the range": {
			env: env(), check: func(n Node) string { return n.DNSServiceIP().String() }, want: "10.96.0.10"},
		"the API server has the first address of the range": {
			config: Config{ServiceCIDR: "10.1.0.0/16"}, env: env(),
			check: func(n Node) string { return n.APIServiceIP().String() }, want: "10.1.0.1"},
		"the gateway is not the node itself": {
			env: env(), check: func(n Node) string { return n.Gateway().String() }, want: "10.77.0.2"},
		"the name names the network namespace": {
			env: env("SWITCHYARD_NODE", "other"), check: func(n Node) string { return n.NetNS() }, want: "/run/netns/other"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := New(c.config, c.env, "/home/x")
			if err != nil {
				t.Fatal(err)
			}
			if got := c.check(n); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"a name with a slash":               {Config{Name: "a/b"}, "name"},
		"a relative state directory":        {Config{State: "x"}, "state directory"},
		"the root as cache":                 {Config{Cache: "/"}, "cache directory"},
		"a node address without a prefix":   {Config{NodeIP: "10.0.0.1"}, "node address"},
		"a service range with host bits":    {Config{ServiceCIDR: "10.96.0.1/16"}, "service range"},
		"a pod range that is not IPv4":      {Config{PodCIDR: "fd00::/64"}, "pod range"},
		"more volumes than anybody needs":   {Config{Volumes: 1000}, "volumes"},
		"two faults, both of them are told": {Config{Name: "-", PodCIDR: "x"}, "pod range"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.config, env(), "/home/x")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a fault about %q", err, c.want)
			}
		})
	}
}
