package redirect

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/sidecars/redirect/xtables"
)

func TestAKernelThatRefusesOneRuleKeepsTheOldOnes(t *testing.T) {
	p := newPair(t)
	cfg := Config{NetNS: int(p.pod)}
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: spec.ModeNFT})
	before := everything(t, p.pod)
	broken := append(rules(spec.Spec{Ports: []uint16{9090}, To: 15006}),
		[]expr.Any{&expr.Lookup{SourceRegister: 1, SetName: "no-such-set"}})
	if err := cfg.write(broken, []nftables.TableFamily{nftables.TableFamilyINet}); err == nil {
		t.Fatal("the kernel took a rule with a set that does not exist")
	}
	if diff := cmp.Diff(before, everything(t, p.pod)); diff != "" {
		t.Error(diff)
	}
}

func TestTheTablesOfEachFamilyServeWhereInetCannot(t *testing.T) {
	p := newPair(t)
	p.listen(t, 8080)
	p.listen(t, 15006)
	cfg := Config{NetNS: int(p.pod)}
	s := spec.Spec{Ports: []uint16{8080}, To: 15006}
	families := []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}
	if err := cfg.write(rules(s), families); err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.verify(rules(s), families); err != nil {
		t.Fatal(err)
	}
	for family, address := range podAddresses {
		to := net.JoinHostPort(address, "8080")
		if got, want := ask(t, dial(t, p.outside, to)), "15006 for "+to; got != want {
			t.Errorf("%s: %s, want %s", family, got, want)
		}
	}
}

func TestRulesThatAnotherProgramChangedAreNoticed(t *testing.T) {
	p := newPair(t)
	cfg := Config{NetNS: int(p.pod)}
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: spec.ModeNFT})
	_, err := cfg.verify(rules(spec.Spec{Ports: []uint16{8081}, To: 15006}), []nftables.TableFamily{nftables.TableFamilyINet})
	if err == nil || !strings.Contains(err.Error(), "not those written") {
		t.Errorf("error %v", err)
	}
}

// An error after the rules were written is not one of a kernel that cannot redirect: rules are in force then.
func TestRulesThatCannotBeReadBackAreNotUnsupported(t *testing.T) {
	file, err := os.Open(os.DevNull) // entering it as a namespace is EINVAL
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cfg, s := Config{NetNS: int(file.Fd())}, spec.Spec{All: true, To: 7442}
	families := []nftables.TableFamily{nftables.TableFamilyINet}
	if err := cfg.write(rules(s), families); !Unsupported(err) {
		t.Errorf("they were not written: %v", err)
	}
	if _, err := cfg.verify(rules(s), families); err == nil || Unsupported(err) || !strings.Contains(err.Error(), "rules were written") {
		t.Errorf("they cannot be read back: %v", err)
	}
	of, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // it has no such table
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(of) }() // nothing waits in it
	other := tables{Family: xtables.IPv4(), domain: unix.AF_INET, level: unix.SOL_IP, fd: of}
	if _, err := other.read(); !Unsupported(err) {
		t.Errorf("a table that is not there: %v", err)
	}
	if err := other.verify(nil, true); err == nil || Unsupported(err) || !strings.Contains(err.Error(), "rules were written") {
		t.Errorf("they cannot be read back with legacy iptables: %v", err)
	}
}

// Connections that processes of a pod open are redirected, except those of the proxy, over loopback and with a mark.
func TestOutgoingConnectionsAreRedirectedExceptThoseOfTheProxy(t *testing.T) {
	p := newPair(t)
	listenIn(t, p.outside, 8080)
	listenIn(t, p.pod, 7442)
	listenIn(t, p.pod, 8080)
	s := spec.Spec{All: true, To: 7442, Outgoing: 7441, Mode: spec.ModeNFT}
	for range 2 { // a second run changes nothing
		p.apply(t, s)
	}
	p.apply(t, spec.Spec{Ports: []uint16{9090}, To: 15006, Mode: spec.ModeNFT}) // the sidecar's own rules stay apart
	for family, outside := range map[string]string{"IPv4": "10.77.0.1", "IPv6": "fd77::1"} {
		to := net.JoinHostPort(outside, "8080")
		if got, want := ask(t, dial(t, p.pod, to)), "7442 for "+to; got != want {
			t.Errorf("%s: %s, want %s", family, got, want)
		}
		if got := ask(t, p.dialAs(t, 7441, 0, to)); !strings.HasPrefix(got, "8080 for") {
			t.Errorf("%s, the proxy: %s", family, got)
		}
		if got := ask(t, p.dialAs(t, 1000, 0, to)); got != "7442 for "+to {
			t.Errorf("%s, another user: %s", family, got)
		}
		if got := ask(t, p.dialAs(t, 1000, 0x539, to)); !strings.HasPrefix(got, "8080 for") {
			t.Errorf("%s, with the mark of a mesh: %s", family, got)
		}
		own := net.JoinHostPort(podAddresses[family], "8080")
		if got := ask(t, dial(t, p.pod, own)); !strings.HasPrefix(got, "8080 for") {
			t.Errorf("%s, the pod's own address: %s", family, got)
		}
		if got := ask(t, dial(t, p.outside, own)); !strings.HasPrefix(got, "8080 for") {
			t.Errorf("%s, from outside: %s", family, got)
		}
	}
}

// A link-local address of IPv6 has no meaning without its interface, which a redirected connection loses.
func TestOutgoingConnectionsToLinkLocalAddressesAreNotRedirected(t *testing.T) {
	p := newPair(t)
	listenIn(t, p.outside, 8080)
	listenIn(t, p.pod, 7442)
	s := spec.Spec{All: true, To: 7442, Outgoing: 7441}
	families := []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}
	var zone int
	links(t, p.pod, func(h *netlink.Handle) error {
		link, err := h.LinkByName("eth0")
		if err == nil {
			zone = link.Attrs().Index
		}
		return err
	})
	to := fmt.Sprintf("[fe80::1%%%d]:8080", zone)
	for name, apply := range map[string]func() error{
		"one table":   func() error { _, err := Apply(s, Config{NetNS: int(p.pod)}); return err },
		"each family": func() error { return Config{NetNS: int(p.pod), hook: outgoing}.write(rules(s), families) },
	} {
		if err := apply(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := ask(t, dial(t, p.pod, to)); !strings.HasPrefix(got, "8080 for") {
			t.Errorf("%s: %s", name, got)
		}
		if got := ask(t, dial(t, p.pod, "10.77.0.1:8080")); got != "7442 for 10.77.0.1:8080" {
			t.Errorf("%s, another address: %s", name, got)
		}
	}
	if _, err := (Config{NetNS: int(p.pod), hook: outgoing}).verify(rules(s), families); err != nil {
		t.Error(err)
	}
}

// dialAs connects from the pod as a user, with a mark.
func (p pair) dialAs(t *testing.T, user, mark int, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	within(t, p.pod, func() (err error) { // the thread ends with it
		d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark)
			})
			return errors.Join(err, failed)
		}}
		if _, err := unix.SetfsuidRetUid(user); err != nil {
			return err
		}
		conn, err = d.Dial("tcp", address)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}
