package redirect

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netns"

	"switchyard.dev/sidecars/redirect/spec"
)

// bothWays runs a test once for each way to redirect.
func bothWays(t *testing.T, test func(t *testing.T, mode spec.Mode)) {
	for _, mode := range []spec.Mode{spec.ModeNFT, spec.ModeLegacy} {
		t.Run(string(mode), func(t *testing.T) { test(t, mode) })
	}
}

func (p pair) apply(t *testing.T, s spec.Spec) []string {
	t.Helper()
	got, err := Apply(s, Config{NetNS: int(p.pod)})
	if err != nil {
		t.Fatal(err)
	}
	if got.Mode != s.Mode || got.Why == "" {
		t.Errorf("mode %q because %q", got.Mode, got.Why)
	}
	return got.Rules
}

func TestOnlyTheNamedPortsReachTheSidecarAndItLearnsTheirDestination(t *testing.T) {
	specs := map[string]struct {
		spec       spec.Spec
		redirected []int
		untouched  []int
	}{
		"named ports":      {spec.Spec{Ports: []uint16{8080, 8081}, Except: []uint16{15006, 15021}, To: 15006}, []int{8080, 8081}, []int{9090, 15021}},
		"all but some":     {spec.Spec{All: true, Except: []uint16{9090, 15006, 15021}, To: 15006}, []int{8080, 8081}, []int{9090, 15021}},
		"exceptions first": {spec.Spec{Ports: []uint16{8080, 8081, 9090}, Except: []uint16{9090, 15021}, To: 15006}, []int{8080, 8081}, []int{9090, 15021}},
	}
	for name, c := range specs {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, mode spec.Mode) {
				c.spec.Mode = mode
				p := newPair(t)
				for _, port := range []int{8080, 8081, 9090, 15006, 15021} {
					p.listen(t, port)
				}
				t.Logf("rules: %q", p.apply(t, c.spec))
				for family, address := range podAddresses {
					for _, port := range c.redirected {
						to := net.JoinHostPort(address, fmt.Sprint(port))
						if got, want := ask(t, dial(t, p.outside, to)), "15006 for "+to; got != want {
							t.Errorf("%s from outside to %d: %s, want %s", family, port, got, want)
						}
					}
					for _, port := range c.untouched {
						to := net.JoinHostPort(address, fmt.Sprint(port))
						if got, want := ask(t, dial(t, p.outside, to)), fmt.Sprintf("%d for ", port); !strings.HasPrefix(got, want) {
							t.Errorf("%s from outside to %d: %s, want %s", family, port, got, want)
						}
					}
				}
				// Within the pod, the sidecar and the workload reach each other directly.
				for _, address := range []string{"127.0.0.1", "::1", "10.77.0.2", "fd77::2"} {
					to := net.JoinHostPort(address, "8080")
					if got := ask(t, dial(t, p.pod, to)); !strings.HasPrefix(got, "8080 for ") {
						t.Errorf("within the pod to %s: %s, want the workload", to, got)
					}
				}
			})
		})
	}
}

// Connections that the sidecar and the workload open are not redirected, whatever their user
// and whatever the port.
func TestOutboundTrafficIsNotRedirected(t *testing.T) {
	bothWays(t, func(t *testing.T, mode spec.Mode) {
		p := newPair(t)
		p.listen(t, 15006)
		listenIn(t, p.outside, 8080)
		p.apply(t, spec.Spec{All: true, To: 15006, Mode: mode})
		for family, address := range map[string]string{"IPv4": "10.77.0.1", "IPv6": "fd77::1"} {
			if got := ask(t, dial(t, p.pod, net.JoinHostPort(address, "8080"))); !strings.HasPrefix(got, "8080 for ") {
				t.Errorf("%s from the pod to another: %s, want the other", family, got)
			}
		}
	})
}

func TestAConnectionThatStandsIsNotTouched(t *testing.T) {
	bothWays(t, func(t *testing.T, mode spec.Mode) {
		p := newPair(t)
		p.listen(t, 8080)
		p.listen(t, 15006)
		for family, address := range podAddresses {
			address = net.JoinHostPort(address, "8080")
			standing := dial(t, p.outside, address)
			before := ask(t, standing)
			p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: mode})
			if after := ask(t, standing); !strings.HasPrefix(before, "8080 ") || !strings.HasPrefix(after, "8080 ") {
				t.Errorf("%s: before %q, after %q: want the workload both times", family, before, after)
			}
			if got := ask(t, dial(t, p.outside, address)); !strings.HasPrefix(got, "15006 ") {
				t.Errorf("%s: a new connection reached %q, want the sidecar", family, got)
			}
			p.apply(t, spec.Spec{Ports: []uint16{9090}, To: 15006, Mode: mode})
		}
	})
}

// everything lists all tables, chains and rules of a namespace as text, those of
// nftables and those that iptables-legacy-save and its kin show.
func everything(t *testing.T, ns netns.NsHandle) []string {
	t.Helper()
	conn, err := Config{NetNS: int(ns)}.conn()
	if err != nil {
		t.Fatal(err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range chains {
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			all = append(all, fmt.Sprintf("%d %s %s: %s", c.Table.Family, c.Table.Name, c.Name, describe(r.Exprs)))
		}
	}
	for _, save := range []string{"iptables-legacy-save", "ip6tables-legacy-save"} {
		for line := range strings.Lines(run(t, ns, "", save, "-t", "nat")) {
			if strings.HasPrefix(line, "-A") {
				all = append(all, save+" "+strings.TrimSpace(line))
			}
		}
	}
	return all
}

// run runs a program in a namespace and returns its output.
func run(t *testing.T, ns netns.NsHandle, input, program string, args ...string) string {
	t.Helper()
	var out []byte
	within(t, ns, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Stdin = strings.NewReader(input)
		if out, err = cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", program, err, out)
		}
		return nil
	})
	return string(out)
}

func TestApplyingTwiceIsApplyingOnceAndALaterOneReplaces(t *testing.T) {
	bothWays(t, func(t *testing.T, mode spec.Mode) {
		p := newPair(t)
		foreign(t, p.pod)
		others := everything(t, p.pod)
		first := spec.Spec{Ports: []uint16{8080}, Except: []uint16{15021}, To: 15006, Mode: mode}
		rules := p.apply(t, first)
		once := everything(t, p.pod)
		if again := p.apply(t, first); !slices.Equal(rules, again) {
			t.Errorf("in force %q and then %q", rules, again)
		}
		if diff := cmp.Diff(once, everything(t, p.pod)); diff != "" || len(once) < len(others)+3 {
			t.Errorf("%d rules besides %d; the second time: %s", len(once), len(others), diff)
		}
		p.apply(t, spec.Spec{Ports: []uint16{9090}, To: 15006, Mode: mode})
		after := everything(t, p.pod)
		if text := strings.Join(after, "\n"); strings.Contains(text, "8080") || !strings.Contains(text, "9090") {
			t.Errorf("after another spec:\n%s", text)
		}
		for _, other := range others {
			if !slices.Contains(after, other) {
				t.Errorf("%s is gone", other)
			}
		}
	})
}

// foreignRules are rules of other programs in the nat table of legacy iptables, with chains
// that jump to each other before and after the position of the sidecar's.
const foreignRules = `*nat
:ZULU - [0:0]
:ALPHA - [0:0]
-A PREROUTING -p udp -m udp --dport 53 -j ZULU
-A PREROUTING -p tcp -m tcp --dport 7000 -g ALPHA
-A OUTPUT -m owner --uid-owner 5 -j ZULU
-A POSTROUTING -m comment --comment "of another" -j MASQUERADE
-A ZULU -m mark --mark 7 -j ALPHA
-A ZULU -p udp -m udp -j REDIRECT --to-ports 5300
-A ALPHA -j RETURN
COMMIT
`

// foreign adds tables, chains and rules of other programs.
func foreign(t *testing.T, ns netns.NsHandle) {
	t.Helper()
	conn, err := Config{NetNS: int(ns)}.conn()
	if err != nil {
		t.Fatal(err)
	}
	table := conn.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet})
	mine := conn.AddChain(&nftables.Chain{Name: "mine", Table: table})
	conn.AddRule(&nftables.Rule{Table: table, Chain: mine, Exprs: []expr.Any{pass()}})
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, restore := range []string{"iptables-legacy-restore", "ip6tables-legacy-restore"} {
		run(t, ns, foreignRules, restore, "--noflush", "-w", "5")
	}
}

func TestAnEmptySpecIsRefused(t *testing.T) {
	if _, err := Apply(spec.Spec{}, Config{}); err == nil {
		t.Error("an empty spec was applied")
	}
}
