package allow

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tests/background"
	"switchyard.dev/tunnels/workstation/consent"
)

// asking makes this test binary a program that asks about two addresses, each once a file of the folder
// in this variable exists.
const asking = "ALLOW_TEST_ASKING"

func TestMain(m *testing.M) {
	if os.Getenv(asking) != "" {
		askOnTerminal()
		return
	}
	os.Exit(m.Run())
}

func askOnTerminal() {
	a, err := New(Config{Console: Terminal(os.Stdin, os.Stderr), Err: os.Stderr, Command: "switchyard connect"})
	if err != nil {
		panic(err)
	}
	go func() { // It ends with its test, which removes the folder: a job in the background gets no signal.
		for ; err == nil; time.Sleep(100 * time.Millisecond) {
			_, err = os.Stat(os.Getenv(asking))
		}
		os.Exit(1)
	}()
	changed := make(chan struct{}, 10)
	go a.Run(context.Background(), func(context.Context) { changed <- struct{}{} })
	fmt.Println("begun")
	for _, name := range []string{"begin", "again"} {
		for _, err := os.Stat(os.Getenv(asking) + "/" + name); err != nil; _, err = os.Stat(os.Getenv(asking) + "/" + name) {
			time.Sleep(10 * time.Millisecond)
		}
		r := consent.Request{UID: "u", Sandbox: "his", Workload: "cart", Address: "127.0.0.1:2375"}
		if name == "again" {
			r.Address = "127.0.0.1:9229"
		}
		if d := a.Decide(r); d.Verdict == consent.Ask {
			<-changed
		}
		d := a.Decide(r)
		fmt.Println("decided", name, d.Verdict, d.Why)
	}
}

// tty is a terminal and its screen.
type tty struct {
	*testing.T
	keys   *os.File
	screen *background.Output
	dir    string
}

// begin runs a command of bash in a terminal of its own; $ASK is the program that asks.
func begin(t *testing.T, command string) *tty {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &tty{T: t, keys: keys, screen: &background.Output{}, dir: t.TempDir()}
	cmd := exec.CommandContext(t.Context(), "bash", "-m", "-c", command)
	cmd.Env = append(os.Environ(), asking+"="+s.dir, "ASK="+os.Args[0])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	go func() {
		for b := make([]byte, 1024); ; {
			n, err := keys.Read(b)
			_, _ = s.screen.Write(b[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { // Its terminal ends, and with it all jobs.
		_ = keys.Close()
		_ = cmd.Wait()
	})
	return s
}

// shows waits for a text on the screen.
func (s *tty) shows(text string) {
	s.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(s.screen.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("the screen never shows %q:\n%s", text, s.screen)
		}
	}
}

func (s *tty) types(text string) {
	s.Helper()
	if _, err := s.keys.WriteString(text); err != nil {
		s.Fatal(err)
	}
}

// lets creates a file for which the program waits.
func (s *tty) lets(name string) {
	s.Helper()
	if err := os.WriteFile(s.dir+"/"+name, nil, 0o600); err != nil {
		s.Fatal(err)
	}
}

func TestInTheBackgroundNothingIsAsked(t *testing.T) {
	s := begin(t, `"$ASK" & wait`)
	s.shows("begun")
	s.types("y\n")
	time.Sleep(200 * time.Millisecond) // a program that reads is stopped within that time
	s.lets("begin")
	s.shows("decided begin 0 127.0.0.1:2375 is not opened to the cluster")
	s.shows("connect --sandbox his --allow 127.0.0.1:2375")
}

func TestAQuestionIsSetAsideInTheBackground(t *testing.T) {
	s := begin(t, `"$ASK"; bg; wait`)
	s.shows("begun")
	s.lets("begin")
	s.shows("[y/N]")
	s.types("\x1a")
	s.shows("decided begin 0 127.0.0.1:2375 is not opened to the cluster")
}

func TestOnlyInputAfterAQuestionAnswersIt(t *testing.T) {
	s := begin(t, `"$ASK"`)
	s.shows("begun")
	s.types("y\ny\n")
	s.shows("y\r\ny\r\n")
	s.lets("begin")
	s.shows("Open 127.0.0.1:2375 to the cluster for sandbox his (workload cart)? You are not known to be its author. [y/N]")
	s.types("y\ny\n")
	s.shows("decided begin 2")
	s.lets("again")
	s.shows("Open 127.0.0.1:9229")
	s.types("n\n")
	s.shows("decided again 0 you refused")
}

func TestEndOfInputPrintsTheCommand(t *testing.T) {
	s := begin(t, `"$ASK"`)
	s.shows("begun")
	s.lets("begin")
	s.shows("[y/N]")
	s.types("\x04")
	s.shows("decided begin 0 127.0.0.1:2375 is not opened to the cluster")
	s.lets("again")
	s.shows("decided again 0 127.0.0.1:9229 is not opened to the cluster")
}

func TestADeviceIsNoTerminal(t *testing.T) {
	for _, command := range []string{`"$ASK" </dev/null`, `"$ASK" </dev/zero`, `ln -s /dev/null "$ALLOW_TEST_ASKING/in"; "$ASK" <"$ALLOW_TEST_ASKING/in"`, `"$ASK" 2>/dev/null`} {
		s := begin(t, command)
		s.shows("begun")
		s.lets("begin")
		s.shows("decided begin 0 127.0.0.1:2375 is not opened to the cluster")
	}
}
