package process_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tools/switchyard/command/interrupt"
	"switchyard.dev/tools/switchyard/local/process"
	"switchyard.dev/tools/wait"
)

// TestMain runs a job in place of the tests, if the environment names one.
func TestMain(m *testing.M) {
	script := os.Getenv("JOB")
	if script == "" {
		os.Exit(m.Run())
	}
	ctx, stop := interrupt.Notify(context.Background())
	defer stop()
	signals, back := interrupt.Divert(ctx)
	defer back()
	c := exec.Command("sh", "-c", script)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	r, err := (&process.Job{Cmd: c, Signals: signals, Patience: 2 * time.Second}).Run()
	fmt.Println("code", r.Code, err, "left", len(r.Left), "canceled", ctx.Err())
	for _, l := range r.Left {
		_ = syscall.Kill(l.PID, syscall.SIGKILL)
	}
}

// counted is a script that notes signals in a file, and ends a moment after the first.
const counted = `for s in INT TERM HUP; do trap "echo $s >>$NOTES; seen=1" $s; done; : >$NOTES; : >$NOTES.ready
until [ "$seen" ]; do sleep 0.05; done; i=0; while [ $i -lt 10 ]; do i=$((i+1)); sleep 0.05; done; echo drained >>$NOTES; exit 3`

// job starts a job in a process of its own.
func job(t *testing.T, script string, change func(*exec.Cmd)) (c *exec.Cmd, out *bytes.Buffer, notes string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	notes, out = filepath.Join(t.TempDir(), "notes"), &bytes.Buffer{}
	c = exec.Command(self)
	c.Env = append(os.Environ(), "JOB="+script, "NOTES="+notes)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if change != nil {
		change(c)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Holds(t, "the script runs", func() bool { _, err := os.Stat(notes); return err == nil })
	return c, out, notes
}

// printed returns the output without the lines that shells print about their children.
func printed(out *bytes.Buffer) string {
	return strings.NewReplacer("Terminated\n", "", "Hangup\n", "", "Killed\n", "").Replace(out.String())
}

func TestASignalIsOneSignal(t *testing.T) {
	for name, s := range map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP} {
		for _, group := range []bool{true, false} {
			c, out, notes := job(t, counted, nil)
			to := c.Process.Pid
			if group {
				to = -to
			}
			if err := syscall.Kill(to, s); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait()
			if got, _ := os.ReadFile(notes); string(got) != name+"\ndrained\n" || printed(out) != "code 3 <nil> left 0 canceled <nil>\n" {
				t.Errorf("%s to the group %t: it got %q and ended with %s", name, group, got, out)
			}
		}
	}
}

func TestChildrenOfAWrapperAreEndedOrNamed(t *testing.T) {
	const wrapper = `sh -c 'trap "echo child; exit" TERM; trap "" INT; : >$NOTES; while :; do sleep 0.05; done' & wait`
	for name, c := range map[string]struct {
		script string
		signal syscall.Signal
		want   string
	}{
		"a stop reaches the child":                   {wrapper, syscall.SIGTERM, "child\ncode 143 <nil> left 0 canceled <nil>\n"},
		"a child that ignores SIGINT gets SIGTERM":   {wrapper, syscall.SIGINT, "child\ncode 130 <nil> left 0 canceled <nil>\n"},
		"a child that ignores all is left":           {strings.ReplaceAll(wrapper, `"echo child; exit"`, `""`), syscall.SIGTERM, "code 143 <nil> left 1 canceled <nil>\n"},
		"the wrapper crashes, and the child is left": {strings.ReplaceAll(wrapper, "& wait", "& until [ -e $NOTES ]; do sleep 0.05; done; kill -KILL $$"), 0, "code 137 <nil> left 1 canceled <nil>\n"},
	} {
		p, out, _ := job(t, c.script, nil)
		if c.signal != 0 {
			_ = p.Process.Signal(c.signal)
		}
		_ = p.Wait()
		// The child's own sleep may be left a moment longer.
		if got := strings.ReplaceAll(printed(out), "left 2", "left 1"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// In a terminal Ctrl-C is one SIGINT before the job has read from it, and after that.
func TestAJobHasTheTerminal(t *testing.T) {
	for name, script := range map[string]string{"without reading": counted, "after reading": `read line; echo "read $line"; ` + counted} {
		near, far := pty(t)
		c, _, notes := job(t, `: >$NOTES; `+script, func(c *exec.Cmd) {
			c.Stdin, c.Stdout, c.Stderr = far, far, far
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		})
		far.Close()
		said := make(chan string, 1)
		go func() {
			var b bytes.Buffer
			_, _ = b.ReadFrom(near)
			said <- b.String()
		}()
		_, _ = near.WriteString("hello\n")
		wait.Holds(t, "the script waits", func() bool { _, err := os.Stat(notes + ".ready"); return err == nil })
		_, _ = near.Write([]byte{3})
		_ = c.Wait()
		text := <-said
		if got, _ := os.ReadFile(notes); string(got) != "INT\ndrained\n" || !strings.Contains(text, "code 3 <nil> left 0") {
			t.Errorf("%s: it got %q, and the terminal has %q", name, got, text)
		}
		if strings.Contains(script, "read line") && !strings.Contains(text, "read hello") {
			t.Errorf("%s: the terminal has %q", name, text)
		}
	}
}

func pty(t *testing.T) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals: %v", err)
	}
	t.Cleanup(func() { near.Close() })
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return near, far
}
