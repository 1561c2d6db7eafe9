package redirect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/redirect/spec"
)

// pair is two network namespaces of the test's own, joined by a cable: the
// pod's, and one from which requests come.
type pair struct {
	pod, outside netns.NsHandle
}

var podAddresses = map[string]string{"IPv4": "10.77.0.2", "IPv6": "fd77::2"}

func newPair(t *testing.T) pair {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes network namespaces: run it as root")
	}
	p := pair{pod: newNamespace(t), outside: newNamespace(t)}
	links(t, p.outside, func(h *netlink.Handle) error {
		return h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"},
			PeerName: "eth0", PeerNamespace: netlink.NsFd(int(p.pod))})
	})
	for ns, host := range map[netns.NsHandle]int{p.outside: 1, p.pod: 2} {
		links(t, ns, func(h *netlink.Handle) error { return up(h, host) })
	}
	return p
}

// up brings loopback and the cable up, with address number host of each family.
func up(h *netlink.Handle, host int) error {
	for _, name := range []string{"lo", "eth0"} {
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		if err := h.LinkSetUp(link); err != nil {
			return err
		}
		if name == "lo" {
			continue
		}
		for _, format := range []string{"10.77.0.%d/24", "fd77::%d/64"} {
			address, err := netlink.ParseAddr(fmt.Sprintf(format, host))
			if err != nil {
				return err
			}
			address.Flags = unix.IFA_F_NODAD // usable at once
			if err := h.AddrAdd(link, address); err != nil {
				return err
			}
		}
	}
	return nil
}

func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	made := make(chan netns.NsHandle)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := netns.New()
		if err != nil {
			t.Errorf("new network namespace: %v", err)
		}
		made <- ns
	}()
	ns := <-made
	if !ns.IsOpen() {
		t.FailNow()
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

func links(t *testing.T, ns netns.NsHandle, do func(*netlink.Handle) error) {
	t.Helper()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := do(h); err != nil {
		t.Fatal(err)
	}
}

// within runs a function on a thread in a namespace. Sockets it opens stay
// there.
func within(t *testing.T, ns netns.NsHandle, do func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// listen answers each connection to a port of the pod with the port's number
// and the destination the connection had before NAT, line for line of what it
// is sent.
func (p pair) listen(t *testing.T, port int) {
	t.Helper()
	var l net.Listener
	within(t, p.pod, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		return err
	})
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				line := make([]byte, 1)
				for {
					if _, err := io.ReadFull(conn, line); err != nil {
						return
					}
					fmt.Fprintf(conn, "%d for %s\n", port, originalDestination(conn.(*net.TCPConn)))
				}
			}()
		}
	}()
}

// originalDestination asks the kernel, as Envoy's original_dst filter does.
func originalDestination(conn *net.TCPConn) string {
	const soOriginalDst = 80
	raw, err := conn.SyscallConn()
	if err != nil {
		return err.Error()
	}
	text := "nothing"
	local := conn.LocalAddr().(*net.TCPAddr)
	_ = raw.Control(func(fd uintptr) {
		if local.IP.To4() != nil {
			// The answer is a sockaddr_in, which fits the struct of another option.
			if a, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, soOriginalDst); err == nil {
				b := a.Multiaddr
				text = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])).String()
			}
		} else if a, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, soOriginalDst); err == nil {
			port := a.Addr.Port // in network order
			text = netip.AddrPortFrom(netip.AddrFrom16(a.Addr.Addr), port<<8|port>>8).String()
		}
	})
	return text
}

func dial(t *testing.T, from netns.NsHandle, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	within(t, from, func() (err error) {
		conn, err = net.DialTimeout("tcp", address, 5*time.Second)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ask(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte{'?'}); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(answer[:n]))
}

func (p pair) apply(t *testing.T, s spec.Spec) []string {
	t.Helper()
	rules, err := Apply(s, Config{NetNS: int(p.pod)})
	if err != nil {
		t.Fatal(err)
	}
	return rules
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
	}
}

func TestAConnectionThatStandsIsNotTouched(t *testing.T) {
	p := newPair(t)
	p.listen(t, 8080)
	p.listen(t, 15006)
	standing := dial(t, p.outside, "10.77.0.2:8080")
	before := ask(t, standing)
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006})
	if after := ask(t, standing); !strings.HasPrefix(before, "8080 ") || !strings.HasPrefix(after, "8080 ") {
		t.Errorf("before %q, after %q: want the workload both times", before, after)
	}
	if got := ask(t, dial(t, p.outside, "10.77.0.2:8080")); !strings.HasPrefix(got, "15006 ") {
		t.Errorf("a new connection reached %q, want the sidecar", got)
	}
}

// everything lists all tables, chains and rules of a namespace as text.
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
	return all
}

func TestApplyingTwiceIsApplyingOnceAndALaterOneReplaces(t *testing.T) {
	p := newPair(t)
	foreign(t, p.pod)
	first := spec.Spec{Ports: []uint16{8080}, Except: []uint16{15021}, To: 15006}
	p.apply(t, first)
	once := everything(t, p.pod)
	p.apply(t, first)
	if diff := cmp.Diff(once, everything(t, p.pod)); diff != "" || len(once) != 4 {
		t.Errorf("%d rules; the second time: %s", len(once), diff)
	}
	p.apply(t, spec.Spec{Ports: []uint16{9090}, To: 15006})
	after := strings.Join(everything(t, p.pod), "\n")
	if strings.Contains(after, "8080") || !strings.Contains(after, "9090") || !strings.Contains(after, "other mine") {
		t.Errorf("after another spec:\n%s", after)
	}
}

// foreign adds a table that is not ours.
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
}

func TestAKernelThatRefusesOneRuleKeepsTheOldOnes(t *testing.T) {
	p := newPair(t)
	cfg := Config{NetNS: int(p.pod)}
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006})
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
	p.apply(t, spec.Spec{Ports: []uint16{8080}, To: 15006})
	_, err := cfg.verify(rules(spec.Spec{Ports: []uint16{8081}, To: 15006}), []nftables.TableFamily{nftables.TableFamilyINet})
	if err == nil || !strings.Contains(err.Error(), "not those written") {
		t.Errorf("error %v", err)
	}
}

func TestASpecThatSaysNothingIsRefused(t *testing.T) {
	if _, err := Apply(spec.Spec{}, Config{}); err == nil {
		t.Error("an empty spec was applied")
	}
}

func TestTheProgramAppliesItsEnvironmentAndSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} { // for a user without rights
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "redirect")
	if out, err := exec.Command("go", "build", "-o", program, "switchyard.dev/sidecars/cmd/redirect").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := newPair(t)
	run := func(attributes *syscall.SysProcAttr, env ...string) (string, int) {
		var out []byte
		var code int
		within(t, p.pod, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, program)
			cmd.Env, cmd.SysProcAttr = env, attributes
			out, _ = cmd.CombinedOutput() // a failure shows in the exit code
			code = cmd.ProcessState.ExitCode()
			return nil
		})
		return string(out), code
	}
	right := []string{spec.EnvPorts + "=8080", spec.EnvTo + "=15006"}
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if out, code := run(nobody, right...); code != 1 || !strings.Contains(out, "needs the capability NET_ADMIN") {
		t.Errorf("without a right: code %d, %s", code, out)
	}
	if out, code := run(nil, spec.EnvTo+"=15006"); code != 2 || !strings.Contains(out, spec.EnvPorts) {
		t.Errorf("without ports: code %d, %s", code, out)
	}
	if got := everything(t, p.pod); len(got) != 0 {
		t.Errorf("programs that failed left %q", got)
	}
	if out, code := run(nil, right...); code != 0 || len(everything(t, p.pod)) != 2 {
		t.Errorf("code %d, %s, rules %q", code, out, everything(t, p.pod))
	}
}
