package consent

import (
	"net/netip"
	"strings"
	"testing"
)

func TestWhichAddressesAreOpened(t *testing.T) {
	policy := Policy{
		Flags: []string{"localhost:8081", "192.168.1.4:80", "db.lan:5432", "127.0.0.1:7000"},
		Named: []Named{{"file", "localhost:9000"}},
		Answers: []Answer{{UID: "u", Address: "127.0.0.1:2375", Allowed: true}, {UID: "u", Address: "127.0.0.1:9229"},
			{UID: "", Address: "127.0.0.1:1", Allowed: true}},
	}
	for _, c := range []struct {
		request  Request
		want     Verdict
		explicit bool
		says     string
	}{
		{Request{Address: "127.0.0.1:2375"}, Ask, false, "--allow 127.0.0.1:2375"},
		{Request{Address: "127.0.0.1:2375", Own: true}, Allowed, false, ""},
		{Request{Address: "127.0.0.1:2375", UID: "u"}, Allowed, false, ""},
		{Request{Address: "127.0.0.1:2375", UID: "v"}, Ask, false, ""},
		{Request{Address: "127.0.0.1:2376", UID: "u"}, Ask, false, ""},
		{Request{Address: "127.0.0.1:9229", UID: "u"}, Refused, false, "you refused"},
		{Request{Address: "127.0.0.1:9229", UID: "u", Own: true}, Allowed, false, ""},
		{Request{Address: "127.0.0.1:1"}, Ask, false, ""},
		{Request{Address: "localhost:8081"}, Allowed, true, ""},
		{Request{Address: "LOCALHOST.:8081"}, Allowed, true, ""},
		{Request{Address: "127.0.0.1:8081"}, Allowed, true, ""},
		{Request{Address: "[::1]:8081"}, Allowed, true, ""},
		{Request{Address: "127.0.0.2:8081"}, Ask, false, ""},
		{Request{Address: "localhost:7000"}, Ask, false, ""},
		{Request{Address: "[::ffff:127.0.0.1]:7000"}, Allowed, true, ""},
		{Request{Address: "localhost:9000", Sandbox: "file"}, Allowed, false, ""},
		{Request{Address: "localhost:9000", Sandbox: "other"}, Ask, false, ""},
		{Request{Address: "192.168.1.4:80"}, Allowed, true, ""},
		{Request{Address: "192.168.1.1:80", Own: true}, Refused, false, "--allow 192.168.1.1:80"},
		{Request{Address: "evil.example:80", Own: true}, Refused, false, "not an address of this machine"},
		{Request{Address: "127.1:80", Own: true}, Refused, false, "not an address of this machine"},
		{Request{Address: "localhost.evil.example:80", Own: true}, Refused, false, ""},
		{Request{Address: "db.lan:5432"}, Allowed, true, ""},
		{Request{Address: "169.254.169.254:80", Own: true}, Refused, false, "link-local"},
		{Request{Address: "[fe80::1]:80", Own: true}, Refused, false, "link-local"},
		{Request{Address: "[::ffff:169.254.169.254]:80", Own: true}, Refused, false, "link-local"},
		{Request{Address: "[64:ff9b::a9fe:a9fe]:80", Own: true}, Refused, false, "link-local"},
		{Request{Address: "0.0.0.0:80", Own: true}, Refused, false, "unspecified"},
		{Request{Address: "localhost:0", Own: true}, Refused, false, "not host:port"},
		{Request{Address: "localhost", Own: true}, Refused, false, "not host:port"},
		{Request{Address: "::1:80", Own: true}, Refused, false, "not host:port"},
		{Request{Address: "[localhost]:80", Own: true}, Refused, false, "not host:port"},
		{Request{Address: "local host:80\n", Own: true}, Refused, false, "not host:port"},
		{Request{Address: "", Own: true}, Refused, false, "not host:port"},
	} {
		got := policy.Decide(c.request)
		if got.Verdict != c.want || got.Explicit != c.explicit || !strings.Contains(got.Why, c.says) || (got.Why == "") != (c.want == Allowed) {
			t.Errorf("%+v: %+v, not %d with %q", c.request, got, c.want, c.says)
		}
	}
	policy.DistrustAuthor = true
	if got := policy.Decide(Request{Address: "127.0.0.1:1", Own: true}); got.Verdict != Ask {
		t.Errorf("where the author is not trusted: %+v", got)
	}
}

func TestAFlagNamesAnAddress(t *testing.T) {
	for text, want := range map[string]string{
		"8081": "localhost:8081", "LocalHost:8081": "localhost:8081", "[::1]:80": "[::1]:80", "192.168.1.4:80": "192.168.1.4:80",
		"169.254.169.254:80": "", "[fe80::1%eth0]:80": "", "0.0.0.0:80": "", "nowhere": "", "0": "", "": "", "localhost:http": "", "70000": "",
	} {
		if got, err := ParseFlag(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestResolvedAddressesAreChecked(t *testing.T) {
	for text, want := range map[string][2]bool{ // by whether a flag names it
		"127.0.0.1": {true, true}, "::1": {true, true}, "::ffff:127.0.0.1": {true, true}, "192.168.1.4": {false, true}, "10.0.0.1": {false, true},
		"169.254.169.254": {false, false}, "fe80::1": {false, false}, "::": {false, false}, "224.0.0.1": {false, false}, "fd00:ec2::254": {false, false},
		"168.63.129.16": {false, false}, "100.100.100.200": {false, false}, "192.0.0.192": {false, false}, "fd20:ce::254": {false, false},
		"64:ff9b::7f00:1": {false, false}, "64:ff9b:1::a9fe:a9fe": {false, false}, "2002:a9fe:a9fe::": {false, false}, "::a9fe:a9fe": {false, false},
		"fd00::5efe:a9fe:a9fe": {false, false}, "240.0.0.1": {false, false}, "0.1.2.3": {false, false}, "64:ff9b::a9fe:a9fe": {false, false},
		"127.0.0.2": {true, true}, "fd00::1": {false, true},
	} {
		for i, explicit := range []bool{false, true} {
			if got := Connectable(netip.MustParseAddr(text), explicit); (got == "") != want[i] {
				t.Errorf("%s, named %t: %q", text, explicit, got)
			}
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add("127.0.0.1:80")
	f.Add("[fe80::1%lo]:1")
	f.Fuzz(func(t *testing.T, address string) {
		d := Policy{}.Decide(Request{UID: "u", Address: address, Own: true})
		if host, _, ok := split(address); d.Verdict == Allowed && (!ok || !loopback(host)) {
			t.Errorf("%q is opened: %+v", address, d)
		}
	})
}
