package guardian_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/workstation/redirector/guardian"
)

const roleHolder = "holder of rules"

// folderOf is where a holder finds pfctl.
const folderOf = "SWITCHYARD_TEST_FOLDER"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 5 && os.Args[1] == guardian.Command:
		if guardian.Serve(guardian.Config{PFCtl: os.Args[2], Lock: os.Args[3], Anchor: os.Args[4]}, os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	case process.Role() == roleHolder:
		fmt.Println(hold(os.Getenv(folderOf)))
		select {}
	}
	os.Exit(m.Run())
}

// hold has a guardian load rules.
func hold(folder string) error {
	g, err := mac{folder: folder}.start()
	if err == nil {
		err = g.Load("rdr on lo0\n")
	}
	return err
}

// mac is a machine with a folder as its pf: a script instead of pfctl keeps its state there.
type mac struct {
	*testing.T
	folder string
}

const pfctl = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> log
echo $PPID > guardian
case "$*" in
-E) touch on; printf 'No ALTQ support in kernel\nALTQ related functions disabled\npf enabled\nToken : 42\n' >&2;;
"-X 42") rm on;;
"-a com.apple/test -F all") if rm busy 2>/dev/null; then echo "pfctl: DIOCXCOMMIT: Device busy" >&2; exit 1; fi; rm -f rules;;
"-a com.apple/test -f -") cat > rules.new; if [ -e slow ]; then touch loads; sleep 1; fi
	if grep -q bad rules.new; then echo "stdin:1: syntax error" >&2; exit 1; fi; mv rules.new rules; echo loaded >> log;;
*) exit 2;;
esac
`

func newMac(t *testing.T) mac {
	m := mac{t, t.TempDir()}
	if err := os.WriteFile(m.path("pfctl"), []byte(pfctl), 0o700); err != nil {
		t.Fatal(err)
	}
	m.has("pf.conf", "as it was")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("pfctl was run so:\n%s", m.content("log"))
		}
	})
	return m
}

func (m mac) path(name string) string { return filepath.Join(m.folder, name) }

func (m mac) start() (*guardian.Guardian, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return guardian.Start(program, guardian.Config{PFCtl: m.path("pfctl"), Lock: m.path("pf.conf"), Anchor: "com.apple/test"})
}

// has writes a file of the folder.
func (m mac) has(name, content string) {
	m.Helper()
	if err := os.WriteFile(m.path(name), []byte(content), 0o600); err != nil {
		m.Fatal(err)
	}
}

// content is what a file of the folder has; empty where it is not there.
func (m mac) content(name string) string {
	got, _ := os.ReadFile(m.path(name))
	return string(got)
}

func (m mac) is(name string) bool {
	_, err := os.Stat(m.path(name))
	return err == nil
}

// signals sends a signal to the guardian.
func (m mac) signals(s syscall.Signal) {
	m.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(m.content("guardian")))
	if err == nil {
		err = syscall.Kill(pid, s)
	}
	if err != nil {
		m.Fatal(err)
	}
}

// holds starts a process with rules, in a group of its own, and returns its output once they are
// loaded.
func (m mac) holds() (*exec.Cmd, io.Reader) {
	m.Helper()
	c, err := process.Command(roleHolder, folderOf+"="+m.folder)
	if err != nil {
		m.Fatal(err)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
	return c, out
}

// loaded waits until a process reports that its rules are loaded.
func (m mac) loaded(out io.Reader) {
	m.Helper()
	said := make([]byte, 100)
	n, err := out.Read(said)
	if got := string(said[:n]); err != nil || got != "<nil>\n" || m.content("rules") != "rdr on lo0\n" || !m.is("on") {
		m.Fatalf("the holder reports %q, %v, and pf has %q", got, err, m.content("rules"))
	}
}

// isAsBefore waits until nothing of it is left.
func (m mac) isAsBefore() {
	m.Helper()
	wait.Holds(m, "nothing is left", func() bool { return !m.is("rules") && !m.is("on") })
	wait.Holds(m, "another may come", func() bool {
		g, err := m.start()
		if err == nil {
			g.Close()
		}
		return err == nil
	})
	if m.is("rules") || m.is("on") || m.content("pf.conf") != "as it was" {
		m.Errorf("it left %q", m.content("rules"))
	}
}

func TestRulesGoWithTheProgram(t *testing.T) {
	m := newMac(t)
	m.has("rules", "of one that was killed with its guardian")
	g, err := m.start()
	if err != nil {
		t.Fatal(err)
	}
	if m.is("rules") {
		t.Error("rules of an earlier one are still there")
	}
	if err := g.Load("bad"); err == nil || !strings.Contains(err.Error(), "stdin:1: syntax error") {
		t.Errorf("rules that are wrong: %v", err)
	}
	for _, rules := range []string{"rdr on lo0\n", "rdr on lo0\npass\n"} {
		if err := g.Load(rules); err != nil || m.content("rules") != rules {
			t.Errorf("pf has %q, %v", m.content("rules"), err)
		}
	}
	if _, err := m.start(); err == nil || !strings.Contains(err.Error(), "end the other privileged connection") {
		t.Errorf("a second one: %v", err)
	}
	m.has("busy", "")
	g.Close()
	g.Close()
	const flush, load = "-a com.apple/test -F all\n", "-a com.apple/test -f -\n"
	if want := flush + "-E\n" + load + load + "loaded\n" + load + "loaded\n" + flush + flush + "-X 42\n"; m.content("log") != want {
		t.Errorf("it did not run pfctl so:\n%s", want)
	}
	if err := g.Load("rdr on lo0\n"); err == nil {
		t.Error("one that has ended loads")
	}
	m.isAsBefore()
}

func TestKilledProgramsLeaveNothing(t *testing.T) {
	for name, kill := range map[string]func(mac, *exec.Cmd){
		"the program":                      func(_ mac, c *exec.Cmd) { _ = c.Process.Kill() },
		"its group":                        func(_ mac, c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) },
		"the guardian":                     func(m mac, _ *exec.Cmd) { m.signals(syscall.SIGKILL) },
		"the program, after mild attempts": func(m mac, c *exec.Cmd) { mildly(m); _ = c.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMac(t)
			c, out := m.holds()
			m.loaded(out)
			kill(m, c)
			if name == "the guardian" { // Its reference is lost: pf stays on, with the rules of others.
				wait.Holds(m, "no rules are left", func() bool { return !m.is("rules") })
				return
			}
			m.isAsBefore()
		})
	}
}

// mildly sends the guardian what ends other programs.
func mildly(m mac) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		m.signals(s)
	}
}

// What pfctl loads while the program is killed is taken away after that.
func TestAProgramThatIsKilledWhileRulesAreLoaded(t *testing.T) {
	m := newMac(t)
	m.has("slow", "")
	c, _ := m.holds()
	wait.Holds(m, "rules are being loaded", func() bool { return m.is("loads") })
	_ = c.Process.Kill()
	wait.Holds(m, "the reference is given up", func() bool { return strings.Contains(m.content("log"), "-X 42") })
	if !strings.HasSuffix(m.content("log"), "-f -\nloaded\n-a com.apple/test -F all\n-X 42\n") {
		t.Error("it did not wait for the load under way")
	}
	m.isAsBefore()
}

func TestWithoutPF(t *testing.T) {
	m := newMac(t)
	m.has("pfctl", "#!/bin/sh\necho pfctl: /dev/pf: Permission denied >&2; exit 1\n")
	if _, err := m.start(); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("without rights: %v", err)
	}
	m.has("pfctl", "#!/bin/sh\necho pf enabled\n")
	if _, err := m.start(); err == nil || !strings.Contains(err.Error(), "no reference") {
		t.Errorf("without a reference: %v", err)
	}
	m.has("pfctl", "#!/bin/sh\necho nonsense; exec cat\n") // In place of a guardian.
	if _, err := guardian.Start(m.path("pfctl"), guardian.Config{PFCtl: "/bin/true", Lock: m.path("pf.conf")}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a program with another output: %v", err)
	}
	_ = os.Remove(m.path("pf.conf"))
	if _, err := m.start(); err == nil || !strings.Contains(err.Error(), "pf.conf") {
		t.Errorf("without the file to lock: %v", err)
	}
}
