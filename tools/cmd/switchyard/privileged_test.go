package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"github.com/vishvananda/netns"

	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/workstation/redirector/guardian"
)

// Roles of this program in processes of their own, and what they are told.
const (
	roleSwitchyard = "switchyard"
	roleFar        = "far side alone"
	argumentsOf    = "SWITCHYARD_TEST_ARGUMENTS"
	folderOf       = "SWITCHYARD_TEST_FOLDER"
)

// machine is a network namespace of the test's own, and a mount namespace with a file that is
// /etc/resolv.conf there.
type machine struct {
	*testing.T
	holder int
}

// newMachine makes one that goes with the test.
func newMachine(t *testing.T, resolvConf string) machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes network namespaces: run it as root")
	}
	c := exec.Command("unshare", "--net", "--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && ip link set lo up && echo made && exec sleep 300`, resolvConf)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal("the machine was not made: ", err)
	}
	return machine{t, c.Process.Pid}
}

// command is one that runs there.
func (m machine) command(argv ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--target", fmt.Sprint(m.holder), "--net", "--mount"}, argv...)...)
}

// does runs a command, which has to go well.
func (m machine) does(text string) string {
	m.Helper()
	out, err := m.command(strings.Fields(text)...).CombinedOutput()
	if err != nil {
		m.Fatalf("%s: %v\n%s", text, err, out)
	}
	return string(out)
}

// says runs a command however it goes.
func (m machine) says(text string) string {
	out, _ := m.command(strings.Fields(text)...).CombinedOutput()
	return string(out)
}

// self is this program in a role.
func (m machine) self(role string, env ...string) *exec.Cmd {
	m.Helper()
	path, err := os.Executable()
	must(m.T, err)
	c := m.command(path)
	c.Env = append(append(os.Environ(), env...), "SWITCHYARD_ROLE="+role)
	return c
}

// asksTCP asks a resolver of the machine over TCP.
func (m machine) asksTCP(resolver, name string) (answer *dns.Msg, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // Never unlocked: the thread ends with the goroutine.
		ns, other := netns.GetFromPid(m.holder)
		if other == nil {
			other = netns.Set(ns)
			ns.Close()
		}
		if err = other; err == nil {
			answer, _, err = (&dns.Client{Net: "tcp", Timeout: 5 * time.Second}).Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort(resolver, "53"))
		}
	}()
	<-done
	return answer, err
}

// state is what a process that was killed could have left.
func (m machine) state() string {
	var out strings.Builder
	for _, command := range []string{"nft list ruleset", "ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all", "ip link", "cat /etc/resolv.conf /etc/hosts /etc/nsswitch.conf", "cat /proc/self/mounts"} {
		out.WriteString("# " + command + "\n" + m.does(command))
	}
	return out.String()
}

// privileged is a workstation, a cluster, and the program that connects them.
type privileged struct {
	machine
	resolvConf string
	folder     string
	sudo       string // the user that called sudo; empty: root came by itself
	process    *exec.Cmd
	errs       *bytes.Buffer
}

// newPrivileged makes both machines: the workstation reaches the proxy, a resolver and a server
// that are outside of the cluster, and nothing else answers.
func newPrivileged(t *testing.T) *privileged {
	p := &privileged{folder: t.TempDir(), errs: &bytes.Buffer{}}
	p.resolvConf = filepath.Join(p.folder, "resolv.conf")
	must(t, writeFile(p.resolvConf, "nameserver 192.0.2.53\noptions timeout:1\n"))
	must(t, os.Chmod(p.resolvConf, 0o644)) // Users of the machine other than root read it.
	p.machine = newMachine(t, p.resolvConf)
	far := newMachine(t, p.resolvConf)
	far.does(fmt.Sprintf("ip link add far type veth peer name near netns /proc/%d/ns/net", p.holder))
	for _, address := range []string{"192.0.2.2/24", "192.0.2.7/24", "192.0.2.53/24", "192.0.2.54/24", "192.0.2.80/24", "fd00:2::2/64"} {
		far.does("ip address add " + address + " dev far nodad")
	}
	for _, address := range []string{"10.96.0.10/32", "10.96.0.53/32", "10.96.0.70/32", "10.244.1.7/32", "10.245.0.9/32", "fd00:10:96::10/128"} {
		far.does("ip address add " + address + " dev lo nodad")
	}
	far.does("ip link set far up")
	p.does("ip address add 192.0.2.1/24 dev near")
	p.does("ip address add fd00:2::1/64 dev near nodad")
	p.does("ip link set near addrgenmode none up") // An address of its own would come some time later.
	p.does("ip route add default via 192.0.2.254")
	p.does("ip -6 route add default via fd00:2::fe")
	authority := trusttest.New(t, "switchyard")
	for _, name := range []string{"tunnel-proxy", "tunnel-api"} {
		leaf := authority.Leaf(t, name+".signadot.svc")
		trusttest.File(t, p.folder, name+".crt", leaf.Cert)
		trusttest.File(t, p.folder, name+".key", leaf.Key)
	}
	trusttest.File(t, p.folder, "ca.crt", authority.Bundle())
	trusttest.File(t, p.folder, "token", []byte("good"))
	side := far.self(roleFar, folderOf+"="+p.folder)
	side.Stderr = os.Stderr
	out, err := side.StdoutPipe()
	must(t, err)
	must(t, side.Start())
	t.Cleanup(func() { _ = side.Process.Kill(); _ = side.Wait() })
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal("the far side did not begin: ", err)
	}
	return p
}

// switchyard is the program, with arguments, on the workstation.
func (p *privileged) switchyard(arguments string) *exec.Cmd {
	p.Helper()
	return p.self(roleSwitchyard, "XDG_RUNTIME_DIR="+p.folder, "SUDO_UID="+p.sudo, argumentsOf+"="+arguments)
}

func (p *privileged) connect() string {
	return "connect --privileged --address 192.0.2.7:7777 --ca " + p.folder + "/ca.crt --token-file " + p.folder + "/token --socks5= --http-proxy="
}

// connects begins it, until it leads.
func (p *privileged) connects() {
	p.Helper()
	p.process = p.switchyard(p.connect())
	p.process.Stderr = p.errs
	must(p.T, p.process.Start())
	p.Cleanup(func() { p.kill(); p.Logf("it said:\n%s", p.errs) })
	wait.Holds(p, "names and addresses are led", func() bool {
		out, _ := p.switchyard("connect status").CombinedOutput()
		return strings.Contains(string(out), "are reached from all programs")
	})
}

// kill ends it as kill -9 does.
func (p *privileged) kill() {
	_ = p.process.Process.Kill()
	_ = p.process.Wait()
}

// gets returns what a URL answers.
func (p *privileged) gets(url string) string { return p.says("curl -sS -m 5 " + url) }

// answers fails the test where a URL does not answer as it should.
func (p *privileged) answers(all map[string]string) {
	p.Helper()
	for url, want := range all {
		if got := p.gets(url); got != want {
			p.Errorf("%s answers %q, not %q", url, got, want)
		}
	}
}

// rulesAre reports whether the kernel has the rules that it should, in their order.
func (p *privileged) rulesAre() {
	p.Helper()
	got := regexp.MustCompile(`redirect to :\d+`).ReplaceAllString(p.does("nft -n list ruleset"), "redirect")
	const opening = "tcp flags 0x2 / 0x1,0x2,0x4,0x10 redirect"
	rest := got
	for _, want := range []string{
		"table inet switchyard_workstation", "flags owner", "type nat hook output priority -100; policy accept;", "meta mark 0x00005359 return",
		"meta skuid 0 ip daddr 192.0.2.53 udp dport 53 redirect", "meta skuid 0 ip daddr 192.0.2.53 tcp dport 53 redirect", "fib daddr type 2 return",
		"ip daddr 10.245.7.0/24 return", "ip daddr 192.0.2.7 return", "meta skuid 0 ip daddr 10.245.0.0/16 " + opening,
		"meta skuid 0 ip daddr @addresses4 " + opening, "meta skuid 0 ip6 daddr @addresses6 " + opening,
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			p.Errorf("the kernel has no %q, or not in this place:\n%s", want, got)
			continue
		}
		rest = after
	}
}

// The program, its carrier, and the proxy's gate: all that a program of the machine does, and then
// kill -9, after which the machine is as it was.
func TestConnectWithPrivilegesLeavesNothing(t *testing.T) {
	p := newPrivileged(t)
	outside := map[string]string{"http://outside.test/": "outside", "http://192.0.2.80/": "outside"}
	wait.Holds(t, "the outside is reached", func() bool { return p.gets("http://outside.test/") == "outside" })
	wait.Holds(t, "the link has settled", func() bool {
		now := p.state()
		return !strings.Contains(now, "linkdown") && strings.Contains(now, "multicast ff00::/8 dev near")
	})
	before := p.state()
	if got := p.says("getent hosts cart.hotrod"); got != "" {
		t.Fatalf("cart.hotrod is %q before there is a connection", got)
	}
	p.connects()
	p.answers(map[string]string{
		"-4 http://cart.hotrod/": "cart", "-4 http://cart.hotrod.svc.cluster.local/": "cart", "http://10.96.0.10/": "cart",
		"-6 http://cart.hotrod.svc/": "cart in six", "http://[fd00:10:96::10]/": "cart in six",
		"http://pods.hotrod/": "a pod", "http://10.245.0.9/": "in a range",
	})
	p.answers(map[string]string{"http://10.244.1.7/": "a pod"}) // led since its name was asked for
	p.answers(outside)
	for name, want := range map[string]string{"ahostsv4 cart.hotrod": "10.96.0.10 ", "ahostsv6 cart.hotrod": "fd00:10:96::10 ", "hosts pods.hotrod.svc": "10.244.1.7 ", "hosts outside.test": "192.0.2.80 "} {
		if got := p.says("getent " + name); !strings.HasPrefix(got, want) {
			t.Errorf("getent %s says %q, not %q", name, got, want)
		}
	}
	for name, code := range map[string]int{"cart.hotrod.": dns.RcodeSuccess, "outside.test.": dns.RcodeSuccess, "nothing.hotrod.svc.": dns.RcodeNameError, "nothing.test.": dns.RcodeNameError} {
		if answer, err := p.asksTCP("192.0.2.53", name); err != nil || answer.Rcode != code || code == 0 && len(answer.Answer) != 1 {
			t.Errorf("%s over TCP: %v, %v", name, answer, err)
		}
	}
	if got := p.gets("http://10.245.0.1/"); !strings.HasPrefix(got, "curl: ") {
		t.Errorf("an address of the cluster where nothing is says %q, as if somebody had answered", got)
	}
	p.rulesAre()
	for _, command := range []string{"nft flush ruleset", "nft delete table inet switchyard_workstation"} {
		p.says(command)
	}
	if !strings.Contains(p.does("nft list ruleset"), "redirect") {
		t.Error("another program could take the rules away")
	}
	if out, err := p.switchyard(p.connect()).CombinedOutput(); err == nil || !strings.Contains(string(out), "another program owns table") {
		t.Errorf("a second connection says %s", out)
	}
	p.kill()
	if after := p.state(); after != before {
		t.Errorf("kill -9 has left something: %s", cmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")))
	}
	p.answers(outside)
	if got := p.says("getent hosts cart.hotrod"); got != "" {
		t.Errorf("cart.hotrod is %q after it", got)
	}
}

// The connections and queries of one user are redirected, and no others of the machine: those of the
// user that called sudo, or else of root.
func TestPrivilegesAreThoseOfOneUser(t *testing.T) {
	const ada, bob, root = "65533", "65534", "0"
	for sudo, whose := range map[string]string{"": root, ada: ada} {
		t.Run("sudo "+sudo, func(t *testing.T) {
			p := newPrivileged(t)
			p.sudo = sudo
			p.connects()
			for _, user := range []string{ada, bob, root} {
				as := "setpriv --reuid " + user + " --clear-groups -- "
				served := user == whose
				for _, url := range []string{"-4 http://cart.hotrod/", "http://10.96.0.10/", "http://10.245.0.9/", "-6 http://[fd00:10:96::10]/"} {
					if got := p.says(as + "curl -sS -m 2 " + url); strings.HasPrefix(got, "curl: ") == served {
						t.Errorf("%s answers user %s with %q", url, user, got)
					}
				}
				if got := p.says(as + "getent ahostsv4 cart.hotrod"); strings.HasPrefix(got, "10.96.0.10") != served {
					t.Errorf("user %s resolves cart.hotrod as %q", user, got)
				}
				if got := p.says(as + "curl -sS -m 5 http://outside.test/"); got != "outside" {
					t.Errorf("outside.test answers user %s with %q", user, got)
				}
			}
			if out, _ := p.switchyard("connect status").CombinedOutput(); !strings.Contains(string(out), "are reached from all programs of user "+whose) {
				t.Errorf("status does not name the user:\n%s", out)
			}
		})
	}
}

func TestPrivilegesFollowTheResolvers(t *testing.T) {
	p := newPrivileged(t)
	before := p.does("nft list ruleset")
	p.connects()
	p.answers(map[string]string{"-4 http://cart.hotrod/": "cart"})
	must(t, os.WriteFile(p.resolvConf, []byte("nameserver 192.0.2.54\n"), 0o600))
	wait.Holds(t, "queries to the new resolver are led", func() bool {
		answer, err := p.asksTCP("192.0.2.54", "cart.hotrod.")
		return err == nil && len(answer.Answer) == 1
	})
	p.answers(map[string]string{"-4 http://cart.hotrod/": "cart", "http://outside.test/": "outside"})
	out, _ := p.switchyard("connect status").CombinedOutput()
	for _, want := range []string{"other names are asked of 192.0.2.54", "10.245.0.0/16 are reached from all programs", "names of 2 Services, and 2 single addresses", "the range 0.0.0.0/0 of the operator is not redirected"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("status does not say %q:\n%s", want, out)
		}
	}
	if out, err := p.switchyard("doctor --privileged --address 192.0.2.7:7777 --ca " + p.folder + "/ca.crt --token-file " + p.folder + "/token").CombinedOutput(); err != nil {
		t.Errorf("doctor says %v\n%s", err, out)
	}
	must(t, p.process.Process.Signal(os.Interrupt))
	if err := p.process.Wait(); p.process.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v", err)
	}
	if after := p.does("nft list ruleset"); after != before {
		t.Errorf("it left %s", after)
	}
}

// Without the capability nothing begins, and what to do is said.
func TestPrivilegesThatAreNotThere(t *testing.T) {
	p := newPrivileged(t)
	for arguments, want := range map[string]string{
		p.connect():           "takes CAP_NET_ADMIN: connect by sudo, or give it with setcap cap_net_admin+ep to a copy",
		"doctor --privileged": "(mode 0750), and sudo setcap cap_net_admin+ep FILE",
		strings.ReplaceAll(p.connect(), "--privileged", "--range 10.0.0.0/8"): "set both",
		p.connect() + " --range nowhere":                                      "is no range of addresses",
	} {
		c := p.switchyard(arguments)
		at := len(c.Args) - 1
		c.Args = append(c.Args[:at:at], "setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-all", c.Args[at])
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s says, with %v, %s", arguments, err, out)
		}
	}
	if got := p.does("nft list ruleset"); got != "" {
		t.Errorf("it left %s", got)
	}
}

// On macOS the program guards its rules by this command of itself: here with a script in place of pfctl.
func TestRulesOfPFAreGuarded(t *testing.T) {
	folder := t.TempDir()
	pfctl := filepath.Join(folder, "pfctl")
	must(t, os.WriteFile(pfctl, []byte("#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$*\" >> log\ncat >> log\necho 'Token : 42'\n"), 0o700))
	c, err := process.Command(roleSwitchyard, argumentsOf+"="+strings.Join([]string{guardian.Command, pfctl, folder, "com.apple/test"}, " "))
	must(t, err)
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	says := bufio.NewScanner(out)
	for _, order := range []string{"", `{"rules": "rdr on lo0\n"}`, `{"rules": "pass`} {
		_, err := io.WriteString(in, order)
		must(t, err)
		if order != `{"rules": "pass` && (!says.Scan() || says.Text() != "{}") {
			t.Fatalf("to %q it says %q", order, says.Text())
		}
	}
	must(t, c.Process.Signal(os.Interrupt)) // Which does not end it.
	must(t, in.Close())
	must(t, c.Wait())
	log, err := os.ReadFile(filepath.Join(folder, "log"))
	must(t, err)
	const flush = "-a com.apple/test -F all\n"
	if want := flush + "-E\n-a com.apple/test -f -\nrdr on lo0\n" + flush + "-X 42\n"; string(log) != want {
		t.Errorf("pfctl was run so:\n%s", log)
	}
}
