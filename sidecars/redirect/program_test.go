package redirect

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"switchyard.dev/sidecars/redirect/spec"
)

// envLack in the environment makes this test program run another in its place, without the
// kernel features that it names.
const envLack = "SWITCHYARD_TEST_LACK"

func TestMain(m *testing.M) {
	if what := os.Getenv(envLack); what != "" {
		if err := without(strings.Split(what, ","), os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "without:", err)
		}
		os.Exit(99)
	}
	os.Exit(m.Run())
}

// without runs a program in place of this one, on a kernel that seems to lack parts: nft,
// legacy4 and legacy6. A filter answers the system calls for them as a kernel without them
// does.
func without(parts []string, program string) error {
	const number, first, second, third = 0, 16, 24, 32 // within struct seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	// unless goes past the next n instructions.
	unless := func(value uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: n}
	}
	give := func(value uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value} }
	const errno, allow = 0x00050000, 0x7fff0000
	var filter []unix.SockFilter
	option := func(level uint32) {
		filter = append(filter, load(number), unless(unix.SYS_GETSOCKOPT, 5), load(second), unless(level, 3),
			load(third), unless(64, 1), give(errno|uint32(unix.ENOPROTOOPT)))
	}
	for _, part := range parts {
		switch part {
		case "nft":
			filter = append(filter, load(number), unless(unix.SYS_SOCKET, 5), load(first), unless(unix.AF_NETLINK, 3),
				load(third), unless(unix.NETLINK_NETFILTER, 1), give(errno|uint32(unix.EPROTONOSUPPORT)))
		case "legacy4":
			option(unix.SOL_IP)
		case "legacy6":
			option(unix.SOL_IPV6)
		}
	}
	filter = append(filter, give(allow))
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(program, []string{program}, os.Environ())
}

// build makes the program, for any user to run.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "redirect")
	if out, err := exec.Command("go", "build", "-o", program, "switchyard.dev/sidecars/cmd/redirect").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// start runs the program in the pod and returns its output and its exit code.
func (p pair) start(t *testing.T, cmd *exec.Cmd) (string, int) {
	t.Helper()
	var out []byte
	within(t, p.pod, func() error {
		out, _ = cmd.CombinedOutput() // a failure shows in the exit code
		return nil
	})
	return string(out), cmd.ProcessState.ExitCode()
}

func command(t *testing.T, program string, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = slices.Concat(env, []string{spec.EnvTo + "=15006"})
	return cmd
}

func TestTheProgramAppliesItsEnvironmentAndSaysWhatIsWrong(t *testing.T) {
	program := build(t)
	for _, mode := range []string{"auto", "nft", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			p := newPair(t)
			right := []string{spec.EnvPorts + "=8080", spec.EnvMode + "=" + mode}
			nobody := command(t, program, right...)
			nobody.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
			if out, code := p.start(t, nobody); code != 1 || !strings.Contains(out, "needs the capability NET_ADMIN") {
				t.Errorf("without a right: code %d, %s", code, out)
			}
			if out, code := p.start(t, command(t, program, right[1])); code != 2 || !strings.Contains(out, spec.EnvPorts) {
				t.Errorf("without ports: code %d, %s", code, out)
			}
			if got := everything(t, p.pod); len(got) != 0 {
				t.Errorf("programs that failed left %q", got)
			}
			// NET_ADMIN is enough; NET_RAW is not asked for.
			least := command(t, program, right...)
			least.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532},
				AmbientCaps: []uintptr{unix.CAP_NET_ADMIN}}
			if out, code := p.start(t, least); code != 0 || len(everything(t, p.pod)) < 2 {
				t.Errorf("code %d, %s, rules %q", code, out, everything(t, p.pod))
			}
		})
	}
}

func TestAutoTakesWhatTheKernelHasAndSaysWhich(t *testing.T) {
	program := build(t)
	cases := map[string]struct {
		mode, lack string
		code       int
		says       []string
	}{
		"auto, with both":           {"auto", "", 0, []string{`"mode":"nft"`, "the kernel has nftables"}},
		"auto, without nftables":    {"auto", "nft", 0, []string{`"mode":"legacy"`, "no nftables: this node's kernel lacks nf_tables", "REDIRECT --to-ports 15006"}},
		"auto, without legacy":      {"auto", "legacy4,legacy6", 0, []string{`"mode":"nft"`}},
		"auto, with neither":        {"auto", "nft,legacy4,legacy6", 1, []string{"neither way", "nft_redir on the node", "iptable_nat", "IPv4"}},
		"nothing said, as auto":     {"", "nft", 0, []string{`"mode":"legacy"`}},
		"nft, without it":           {"nft", "nft", 1, []string{"lacks nf_tables with NAT: load the modules"}},
		"legacy, without it":        {"legacy", "legacy4", 1, []string{"lacks legacy iptables with NAT: load the modules", "IPv4"}},
		"legacy, with both":         {"legacy", "", 0, []string{`"mode":"legacy"`, "routing.iptablesMode"}},
		"legacy, without it for v6": {"legacy", "legacy6", 1, []string{"ip6table_nat", "IPv6"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.listen(t, 8080)
			p.listen(t, 15006)
			cmd := command(t, os.Args[0], spec.EnvPorts+"=8080", spec.EnvMode+"="+c.mode, envLack+"="+c.lack)
			cmd.Args = append(cmd.Args, program)
			if c.lack == "" {
				cmd.Path, cmd.Args = program, []string{program}
			}
			out, code := p.start(t, cmd)
			if code != c.code {
				t.Errorf("code %d", code)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if code != 0 {
				if got := everything(t, p.pod); len(got) != 0 {
					t.Errorf("it left %q", got)
				}
				return
			}
			for family, address := range podAddresses {
				if got := ask(t, dial(t, p.outside, "["+address+"]:8080")); !strings.HasPrefix(got, "15006 ") {
					t.Errorf("%s reached %q", family, got)
				}
			}
		})
	}
}

func TestAPodWithoutIPv6NeedsNoTableForIt(t *testing.T) {
	program := build(t)
	p := newPair(t)
	p.listen(t, 8080)
	p.listen(t, 15006)
	run(t, p.pod, "", "ip", "-6", "address", "del", "fd77::2/64", "dev", "eth0")
	cmd := command(t, os.Args[0], spec.EnvPorts+"=8080", spec.EnvMode+"=legacy", envLack+"=legacy6")
	cmd.Args = append(cmd.Args, program)
	out, code := p.start(t, cmd)
	if code != 0 || !strings.Contains(out, "nothing for IPv6") {
		t.Errorf("code %d, %s", code, out)
	}
	if got := ask(t, dial(t, p.outside, "10.77.0.2:8080")); !strings.HasPrefix(got, "15006 ") {
		t.Errorf("reached %q", got)
	}
}

// A program that is killed at any moment leaves, in each family, all of the old
// rules or all of the new.
func TestAProgramThatIsKilledLeavesAllRulesOrNone(t *testing.T) {
	program := build(t)
	bothWays(t, func(t *testing.T, mode spec.Mode) {
		p := newPair(t)
		before := spec.Spec{Ports: []uint16{8080}, To: 15006, Mode: mode}
		after := spec.Spec{Ports: []uint16{9090, 9091}, To: 15006, Mode: mode}
		p.apply(t, after)
		now := states(t, p)
		p.apply(t, before)
		old := states(t, p)
		seen := map[string]int{}
		for i := range 60 {
			p.apply(t, before)
			cmd := command(t, program)
			for name, value := range after.Env() {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			within(t, p.pod, cmd.Start)
			timer := time.AfterFunc(time.Duration(i)*150*time.Microsecond, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait() // killed, or done before
			timer.Stop()
			for family, got := range states(t, p) {
				switch {
				case slices.Equal(got, old[family]):
					seen["old"]++
				case slices.Equal(got, now[family]):
					seen["new"]++
				default:
					t.Errorf("%s: neither the old rules nor the new: %q", family, got)
				}
			}
		}
		t.Logf("found %v", seen)
	})
}

// states returns the rules of each family, or of nftables for both.
func states(t *testing.T, p pair) map[string][]string {
	t.Helper()
	by := map[string][]string{"ip6tables": nil, "iptables": nil, "nftables": nil}
	for _, rule := range everything(t, p.pod) {
		family, _, saved := strings.Cut(rule, "-legacy-save ")
		if !saved {
			family = "nftables"
		}
		by[family] = append(by[family], rule)
	}
	return by
}
