package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/policy"
)

func addresses(all ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func cidrs(t testing.TB, text string) []policy.CIDR {
	t.Helper()
	_, out, err := policy.ParseCIDRs(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// places are what every cluster has.
var places = []policy.Place{
	{What: "the API server", Addresses: addresses("10.96.0.1", "172.18.0.2", "fd00:10::1"), Todo: "Set tunnel.allowAPIServer to reach it."},
	{What: "the event bus", Addresses: addresses("10.96.0.7")},
	{What: "a tunnel proxy", Addresses: addresses("10.244.0.9"), Ports: []uint16{1080, 7780}},
	{What: "a sidecar", Ports: []uint16{15006}},
	{What: "a place written as IPv6", Addresses: addresses("::ffff:10.244.0.8")},
}

func TestReachableDestinations(t *testing.T) {
	open := policy.Config{Places: places}
	namespaces := policy.Config{Places: places, Namespaces: []string{"shop", "signadot"}}
	ranges := policy.Config{Places: places, CIDRs: cidrs(t, `
version: 1
outboundIPs:
- {name: pods, cidr: 10.0.0.0/8}
- {name: database, cidr: 10.1.0.0/16, exclude: true}
- {cidr: 10.2.0.4, exclude: true}
- {cidr: "fd00:1::/64"}
`)}
	both := ranges
	both.Namespaces = namespaces.Namespaces
	for _, c := range []struct {
		name   string
		config policy.Config
		to, ns string
		// want is the address to dial, or a part of the refusal's message.
		want string
	}{
		{"any address", open, "10.3.0.4:80", "", "10.3.0.4:80"},
		{"any address, IPv6", open, "[fd00:5::4]:80", "", "[fd00:5::4]:80"},
		{"outside of the cluster", open, "93.184.216.34:443", "", "93.184.216.34:443"},
		{"an IPv4 address written as IPv6", open, "[::ffff:10.3.0.4]:80", "", "10.3.0.4:80"},
		{"behind NAT64", open, "[64:ff9b::10.3.0.4]:80", "", "[64:ff9b::a03:4]:80"},
		{"port 0", open, "10.3.0.4:0", "", "port 0"},

		{"loopback", open, "127.0.0.1:80", "", "loopback"},
		{"another loopback", open, "127.8.7.6:80", "", "loopback"},
		{"loopback, IPv6", open, "[::1]:80", "", "loopback"},
		{"loopback, mapped", open, "[::ffff:127.0.0.1]:80", "", "loopback"},
		{"loopback, compatible", open, "[::127.0.0.1]:80", "", "hides"},
		{"loopback, translated", open, "[::ffff:0:127.0.0.1]:80", "", "hides"},
		{"loopback, NAT64", open, "[64:ff9b::127.0.0.1]:80", "", "loopback"},
		{"loopback, NAT64 of one's own", open, "[64:ff9b:1::7f00:1]:80", "", "hides"},
		{"loopback, 6to4", open, "[2002:7f00:1::1]:80", "", "hides"},
		{"loopback, Teredo", open, "[2001:0:7f00:1::]:80", "", "hides"},
		{"loopback, ISATAP", open, "[fd00:5::5efe:7f00:1]:80", "", "hides"},
		{"an address of everywhere, ISATAP", open, "[fd00:5::200:5efe:5db8:d822]:80", "", "hides"},
		{"unspecified", open, "0.0.0.0:80", "", "unspecified"},
		{"unspecified, IPv6", open, "[::]:80", "", "unspecified"},
		{"this network", open, "0.1.2.3:80", "", "no host"},
		{"metadata", open, "169.254.169.254:80", "", "link-local"},
		{"metadata, mapped", open, "[::ffff:169.254.169.254]:80", "", "link-local"},
		{"metadata, NAT64", open, "[64:ff9b::a9fe:a9fe]:80", "", "link-local"},
		{"metadata of Amazon, IPv6", open, "[fd00:ec2::254]:80", "", "metadata"},
		{"metadata of Azure", open, "168.63.129.16:80", "", "metadata"},
		{"metadata of Google, IPv6", open, "[fd20:ce::254]:80", "", "metadata"},
		{"metadata of Alibaba", open, "100.100.100.200:80", "", "metadata"},
		{"metadata of Oracle", open, "192.0.0.192:80", "", "metadata"},
		{"metadata of Alibaba, NAT64", open, "[64:ff9b::100.100.100.200]:80", "", "metadata"},
		{"link-local, IPv6", open, "[fe80::1]:80", "", "link-local"},
		{"with a zone", open, "[fd00:5::1%eth0]:80", "", "zone"},
		{"multicast", open, "224.0.0.1:80", "", "multicast"},
		{"multicast, IPv6", open, "[ff02::1]:80", "", "multicast"},
		{"broadcast", open, "255.255.255.255:80", "", "no host"},
		{"metadata that is included", policy.Config{CIDRs: cidrs(t, "version: 1\noutboundIPs: [{cidr: 0.0.0.0/0}]")}, "169.254.169.254:80", "", "link-local"},

		{"an API server", open, "10.96.0.1:443", "default", "tunnel.allowAPIServer"},
		{"an API server, mapped", open, "[::ffff:172.18.0.2]:6443", "", "the API server"},
		{"an API server, NAT64", open, "[64:ff9b::ac12:2]:6443", "", "the API server"},
		{"another port of an API server's node", open, "172.18.0.2:10250", "", "the API server"},
		{"the bus", open, "10.96.0.7:4222", "signadot", "the event bus"},
		{"a proxy's control port", open, "10.244.0.9:7780", "", "a tunnel proxy"},
		{"a proxy's port of a workload", open, "10.244.0.9:30001", "", "10.244.0.9:30001"},
		{"a sidecar", open, "10.244.0.77:15006", "", "a sidecar"},
		{"a place written as IPv6", open, "10.244.0.8:80", "", "a place written as IPv6"},

		{"a Service of an allowed namespace", namespaces, "10.96.4.4:80", "shop", "10.96.4.4:80"},
		{"a Service of another namespace", namespaces, "10.96.4.5:80", "bank", "namespace bank"},
		{"an address of no Service", namespaces, "10.244.0.3:80", "", "by its Service's name"},

		{"an included range", ranges, "10.3.0.4:80", "", "10.3.0.4:80"},
		{"an included range, mapped", ranges, "[::ffff:10.3.0.4]:80", "", "10.3.0.4:80"},
		{"an included range, IPv6", ranges, "[fd00:1::4]:80", "", "[fd00:1::4]:80"},
		{"an excluded range", ranges, "10.1.0.4:80", "", "10.1.0.0/16 (database)"},
		{"an excluded range, mapped", ranges, "[::ffff:10.1.0.4]:80", "", "10.1.0.0/16 (database)"},
		{"an excluded range, NAT64", ranges, "[64:ff9b::10.1.0.4]:80", "", "10.1.0.0/16 (database)"},
		{"an excluded address", ranges, "10.2.0.4:80", "", "excludes 10.2.0.4/32"},
		{"an excluded address of a Service", ranges, "10.1.0.4:80", "shop", "excludes"},
		{"no range at all", ranges, "192.168.0.1:80", "", "no CIDR"},
		{"a Service in no range", ranges, "192.168.0.1:80", "shop", "192.168.0.1:80"},

		{"a range of no namespace", both, "10.3.0.4:80", "", "10.3.0.4:80"},
		{"a range of another namespace", both, "10.3.0.4:80", "bank", "namespace bank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, refused := c.config.Judge(policy.Destination{Host: "name", Address: netip.MustParseAddrPort(c.to), Namespace: c.ns})
			if refused != nil {
				if got.IsValid() || refused.Reason != tunnelv1.Reason_REASON_DESTINATION || !strings.Contains(refused.Message, c.want) || !strings.Contains(refused.Message, "cannot be reached") {
					t.Errorf("%v, refused as %v %q; want %q", got, refused.Reason, refused.Message, c.want)
				}
			} else if got.String() != c.want {
				t.Errorf("dials %s, want %q", got, c.want)
			}
		})
	}
}

func TestWrongCIDRsAreReported(t *testing.T) {
	for text, want := range map[string]string{
		"version: 2": "version is 2", "outboundIPs: []": "version is 0",
		"version: 1\noutboundIPs: [{cidr: ten}]":                "is no range",
		"version: 1\noutboundIPs: [{cidr: \"fe80::1%eth0\"}]":   "is no range",
		"version: 1\noutboundIPs: [{cidr: \"::ffff:1.2.3.4\"}]": "write it as IPv4",
		"version: 1\noutboundIP: []":                            "outboundIP",
		"version: 1\nreach: world":                              "write any or cluster",
		"version: 1\noutboundIPs: [{cird: 10.0.0.0/8}]":         "cird",
	} {
		if _, got, err := policy.ParseCIDRs(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	if _, got, err := policy.ParseCIDRs("version: 1\noutboundIPs:\n" + strings.Repeat("- {cidr: 10.0.0.0/8}\n", 1025)); err == nil || !strings.Contains(err.Error(), "at most are read") {
		t.Errorf("1,025 ranges are read as %d: %v", len(got), err)
	}
	if _, got, err := policy.ParseCIDRs(" \n"); got != nil || err != nil {
		t.Errorf("nothing is read as %v, %v", got, err)
	}
}

// TestReach asks for pods, nodes and other addresses with each word.
func TestReach(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":        {"pod": "", "node": "", "other": "", "service": "", "service on a node": ""},
		"any":     {"pod": "", "node": "", "other": "", "service": "", "service on a node": ""},
		"cluster": {"pod": "", "node": "address of a node", "other": "only Services and the pods", "service": "", "service on a node": "address of a node"},
		"version: 1\nreach: cluster\noutboundIPs: [{cidr: 10.0.0.0/8}]":                 {"pod": "", "node": "", "other": "", "service": "", "service on a node": ""},
		"version: 1\nreach: cluster\noutboundIPs: [{cidr: 10.1.0.0/16}]":                {"pod": "", "node": "address of a node", "other": "no CIDR", "service": ""},
		"version: 1\nreach: cluster\noutboundIPs: [{cidr: 10.0.0.9/32, exclude: true}]": {"pod": "excludes", "node": "excludes", "service": "excludes"},
	} {
		reach, all, err := policy.ParseCIDRs(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for what, refusal := range want {
			d := policy.Destination{Host: "x", Address: netip.MustParseAddrPort("10.0.0.9:80")}
			switch what {
			case "pod":
				d.Kind = policy.KindPod
			case "node", "service on a node":
				d.Kind = policy.KindNode
			}
			if strings.HasPrefix(what, "service") {
				d.Namespace = "shop"
			}
			_, refused := policy.Config{Reach: reach, CIDRs: all}.Judge(d)
			if (refused == nil) != (refusal == "") || !strings.Contains(refused.GetMessage(), refusal) {
				t.Errorf("%q, %s: %q, want %q", text, what, refused.GetMessage(), refusal)
			}
		}
	}
	in := policy.Config{Reach: policy.ReachCluster, Namespaces: []string{"shop"}}
	if _, refused := in.Judge(policy.Destination{Host: "x", Address: netip.MustParseAddrPort("10.0.0.9:80"), Kind: policy.KindPod}); refused == nil {
		t.Error("with allowedNamespaces a pod of an unknown namespace is reached")
	}
}

// FuzzJudge compares addresses that are allowed with the standard library's classification.
func FuzzJudge(f *testing.F) {
	for _, a := range []string{"127.0.0.1", "::ffff:169.254.169.254", "10.1.2.3", "64:ff9b::7f00:1", "fd00:ec2::254", "2002:7f00:1::", "::127.0.0.1"} {
		b := netip.MustParseAddr(a).As16()
		f.Add(b[:], uint16(80))
	}
	config := policy.Config{Places: places, CIDRs: []policy.CIDR{{Prefix: netip.MustParsePrefix("0.0.0.0/0")}, {Prefix: netip.MustParsePrefix("::/0")}, {Prefix: netip.MustParsePrefix("10.1.0.0/16"), Exclude: true}}}
	f.Fuzz(func(t *testing.T, raw []byte, port uint16) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		got, refused := config.Judge(policy.Destination{Host: a.String(), Address: netip.AddrPortFrom(a, port)})
		if (refused == nil) != got.IsValid() {
			t.Fatalf("%s: %v and %v", a, got, refused)
		}
		if refused != nil {
			if refused.Reason != tunnelv1.Reason_REASON_DESTINATION || refused.Message == "" {
				t.Fatalf("%s is refused without a reason: %v", a, refused)
			}
			return
		}
		if got.Addr() != a.Unmap() || got.Port() != port || port == 0 || port == 15006 {
			t.Fatalf("%s:%d is dialled as %s", a, port, got)
		}
		tails := []netip.Addr{got.Addr()}
		if b := got.Addr().As16(); netip.MustParsePrefix("64:ff9b::/96").Contains(got.Addr()) || netip.MustParsePrefix("::/96").Contains(got.Addr()) {
			tails = append(tails, netip.AddrFrom4([4]byte(b[12:])))
		}
		for _, x := range tails {
			if x.IsLoopback() || x.IsLinkLocalUnicast() || x.IsMulticast() || x.IsUnspecified() || x == netip.MustParseAddr("10.96.0.1") || netip.MustParsePrefix("10.1.0.0/16").Contains(x) {
				t.Fatalf("%s is dialled as %s", a, x)
			}
		}
	})
}
