package privileges

import "testing"

func TestTheUserThatPrivilegesAreFor(t *testing.T) {
	for _, c := range []struct {
		uid  int
		sudo string
		want uint32
		bad  bool
	}{
		{1000, "", 1000, false}, {0, "", 0, false}, {0, "1000", 1000, false}, {0, "0", 0, false},
		{1000, "1001", 1000, false}, // A program with the capability takes no other user's connections.
		{1000, "x", 1000, false}, {0, "x", 0, true}, {0, "-1", 0, true}, {0, "4294967296", 0, true},
	} {
		if got, err := caller(c.uid, c.sudo); got != c.want || (err != nil) != c.bad {
			t.Errorf("UID %d with SUDO_UID %q: %d, %v", c.uid, c.sudo, got, err)
		}
	}
}

func TestPrivilegesOnMacOSAreExperimental(t *testing.T) {
	for _, c := range []struct {
		system    string
		pf, wrong bool
	}{{"linux", false, false}, {"darwin", false, true}, {"darwin", true, false}} {
		v := Privileges{Use: true, pf: c.pf}
		if err := v.supported(c.system); (err != nil) != c.wrong {
			t.Errorf("%s with pf %t: %v", c.system, c.pf, err)
		}
	}
}
