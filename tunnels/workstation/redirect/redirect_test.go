package redirect_test

import (
	"net/netip"
	"testing"

	"switchyard.dev/tests/golden"
	"switchyard.dev/tunnels/workstation/redirect"
)

func rules() redirect.Rules {
	return redirect.Rules{
		Name: "switchyard_ab12", Port: 15100, DNS: 15053, Mark: 0x5359, UID: 501,
		Ranges:    []netip.Prefix{netip.MustParsePrefix("10.96.0.1/12"), netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112"), netip.MustParsePrefix("10.244.0.0/16")},
		Except:    []netip.Prefix{netip.MustParsePrefix("10.96.0.1/32")},
		Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:10:97::1")},
		Own:       []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::2%en0"), netip.MustParseAddr("192.168.1.2"), netip.MustParseAddr("10.244.7.7")},
		Resolvers: []netip.Addr{netip.MustParseAddr("192.168.1.1"), netip.MustParseAddr("127.0.0.53"), netip.MustParseAddr("192.168.1.2"), netip.MustParseAddr("fe80::1%eth0")},
	}
}

// No pf runs here: the rules are held as text alone.
func TestRulesOfMacOS(t *testing.T) {
	text, err := redirect.PF(rules())
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/macos.pf", text)
}

func TestRulesThatWouldCutAMachineOffAreRefused(t *testing.T) {
	for name, change := range map[string]func(*redirect.Rules){
		"a name with a brace":  func(r *redirect.Rules) { r.Name = "x { }" },
		"everything":           func(r *redirect.Rules) { r.Ranges = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} },
		"this machine":         func(r *redirect.Rules) { r.Ranges = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} },
		"this machine, in six": func(r *redirect.Rules) { r.Ranges = []netip.Prefix{netip.MustParsePrefix("::/1")} },
		"nothing":              func(r *redirect.Rules) { r.Ranges, r.Addresses, r.DNS = nil, nil, 0 },
		"a single one of this": func(r *redirect.Rules) { r.Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.53")} },
		"a link's":             func(r *redirect.Rules) { r.Addresses = []netip.Addr{netip.MustParseAddr("fe80::1")} },
		"no port":              func(r *redirect.Rules) { r.Port = 0 },
		"no resolver":          func(r *redirect.Rules) { r.Resolvers = nil },
		"a range that is none": func(r *redirect.Rules) { r.Ranges = append(r.Ranges, netip.Prefix{}) },
	} {
		r := rules()
		change(&r)
		if text, err := redirect.PF(r); err == nil {
			t.Errorf("%s: pf\n%s", name, text)
		}
	}
}
