package redirect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/sidecars/redirect/xtables"
)

// meant are the rules that iptables-legacy-restore is given for a Spec. It is
// written apart from what makes our rules.
func meant(s spec.Spec) string {
	const tagged = " -m comment --comment switchyard "
	text := "*nat\n:SWITCHYARD_INBOUND - [0:0]\n-I PREROUTING 1" + tagged + "-j SWITCHYARD_INBOUND\n"
	add := func(match, target string) { text += "-A SWITCHYARD_INBOUND " + match + tagged + target + "\n" }
	add("-i lo", "-j RETURN")
	for _, port := range s.Except {
		add(fmt.Sprintf("-p tcp --dport %d", port), "-j RETURN")
	}
	redirect := fmt.Sprintf("-j REDIRECT --to-ports %d", s.To)
	for _, port := range s.Ports {
		add(fmt.Sprintf("-p tcp --dport %d --syn", port), redirect)
	}
	if s.All {
		add("-p tcp --syn", redirect)
	}
	return text + "COMMIT\n"
}

// Whatever rules exist there, the kernel has the same result after this program as after the
// program that is commonly used.
func TestTheTablesAreThoseThatIptablesWouldHaveMade(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ours, theirs := openNamespace(t), openNamespace(t)
		defer ours.Close()
		defer theirs.Close()
		others := drawForeign(r)
		s := spec.Spec{To: 15006, Mode: spec.ModeLegacy, All: rapid.Bool().Draw(r, "all"),
			Except: spec.Normalize(rapid.SliceOfN(rapid.Uint16Range(1, 9999), 0, 4).Draw(r, "except"))}
		if !s.All {
			s.Ports = spec.Normalize(rapid.SliceOfN(rapid.Uint16Range(1, 9999), 1, 4).Draw(r, "ports"))
		}
		for _, restore := range []string{"iptables-legacy-restore", "ip6tables-legacy-restore"} {
			for _, ns := range []netns.NsHandle{ours, theirs} {
				run(t, ns, others, restore, "--noflush", "-w", "5")
			}
			run(t, theirs, meant(s), restore, "--noflush", "-w", "5")
		}
		for range rapid.IntRange(1, 2).Draw(r, "times") {
			if _, err := Apply(s, Config{NetNS: int(ours)}); err != nil {
				r.Fatalf("%v, with\n%s", err, others)
			}
		}
		if diff := cmp.Diff(everything(t, theirs), everything(t, ours)); diff != "" {
			r.Fatalf("iptables would have made something else, with\n%s%s", others, diff)
		}
	})
}

// drawForeign makes rules of other programs: chains that jump only to later ones.
func drawForeign(r *rapid.T) string {
	chains := []string{"PREROUTING", "OUTPUT", "POSTROUTING"}
	heads, rules := "", ""
	for i := range rapid.IntRange(0, 3).Draw(r, "chains") {
		chains = append(chains, fmt.Sprintf("OTHER%d", i))
		heads += fmt.Sprintf(":OTHER%d - [0:0]\n", i)
	}
	for range rapid.IntRange(0, 6).Draw(r, "rules") {
		from := rapid.IntRange(0, len(chains)-1).Draw(r, "from")
		match := rapid.SampledFrom([]string{"", "-p udp -m udp --dport 53", "-m comment --comment x", "-p tcp -m multiport --dports 1,2,3", "-m mark --mark 1"}).Draw(r, "match")
		target := "-j RETURN"
		if later := max(from+1, 3); later < len(chains) && rapid.Bool().Draw(r, "leads on") {
			target = rapid.SampledFrom([]string{"-j ", "-g "}).Draw(r, "how") + rapid.SampledFrom(chains[later:]).Draw(r, "to")
		} else if rapid.Bool().Draw(r, "nothing") {
			target = "" // counts only, and goes on to the next
		}
		rules += "-A " + chains[from] + " " + match + " " + target + "\n"
	}
	return "*nat\n" + heads + rules + "COMMIT\n"
}

// withTable makes the table of IPv4 in a namespace.
func withTable(t *testing.T, p pair, do func(tables) error) error {
	t.Helper()
	return Config{NetNS: int(p.pod)}.inside(func() error {
		open, _, err := openTables()
		if err != nil {
			return err
		}
		for _, o := range open[1:] {
			_ = unix.Close(o.fd)
		}
		defer func() { _ = unix.Close(open[0].fd) }()
		return do(open[0])
	})
}

func TestATableThatTheKernelRefusesLeavesTheOldOne(t *testing.T) {
	p := newPair(t)
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: spec.ModeLegacy})
	before := everything(t, p.pod)
	err := withTable(t, p, func(o tables) error {
		table, err := o.read()
		if err != nil {
			return err
		}
		now, room := table.Len(), make([]byte, 100*xtables.CounterSize)
		table.Set(legacyChain, []xtables.Rule{{TCP: true, Port: 9090, To: 15006}}, true)
		request := table.Request(now, uint64(uintptr(unsafe.Pointer(&room[0]))))
		at := strings.LastIndex(string(request), "REDIRECT")
		copy(request[at:], "NOTARGET")
		return unix.SetsockoptString(o.fd, o.level, xtables.ReplaceOption, string(request))
	})
	if !lacking(err) {
		t.Errorf("a target that does not exist: %v", err)
	}
	if diff := cmp.Diff(before, everything(t, p.pod)); diff != "" {
		t.Error(diff)
	}
}

func TestLegacyRulesThatAnotherProgramChangedAreNoticed(t *testing.T) {
	s := spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: spec.ModeLegacy}
	for name, change := range map[string][]string{
		"our chain emptied":     {"-F", legacyChain},
		"a rule before ours":    {"-I", legacyChain, "-j", "RETURN"},
		"a rule before our way": {"-I", "PREROUTING", "-j", "ACCEPT"},
		"our way is narrower":   {"-R", "PREROUTING", "1", "-p", "tcp", "-j", legacyChain},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.apply(t, s)
			check := func(o tables) error { return o.verify(legacyRules(s), true) }
			if err := withTable(t, p, check); err != nil {
				t.Errorf("unchanged: %v", err)
			}
			run(t, p.pod, "", "iptables-legacy", append([]string{"-t", "nat"}, change...)...)
			if err := withTable(t, p, check); err == nil || !strings.Contains(err.Error(), "read back differ") {
				t.Errorf("changed: %v", err)
			}
			p.apply(t, s) // mends it
			if err := withTable(t, p, check); err != nil {
				t.Errorf("applied again: %v", err)
			}
		})
	}
}

func TestWithoutCommentsTheRulesAreTheSame(t *testing.T) {
	p := newPair(t)
	p.listen(t, 8080)
	p.listen(t, 15006)
	rules := legacyRules(spec.Spec{Ports: []uint16{8080}, To: 15006})
	err := withTable(t, p, func(o tables) error {
		if err := o.replace(rules, false); err != nil {
			return err
		}
		return o.verify(rules, false)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, dial(t, p.outside, "10.77.0.2:8080")); !strings.HasPrefix(got, "15006 ") {
		t.Errorf("reached %q", got)
	}
	if slices.ContainsFunc(everything(t, p.pod), func(rule string) bool { return strings.Contains(rule, "comment") }) {
		t.Error("there are comments")
	}
}
