package allow

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"switchyard.dev/tests/background"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
)

// lines is a Console with answers from a test.
type lines struct {
	out     io.Writer
	answers chan string
}

func (l lines) Here() bool { return true }

func (l lines) Ask(ctx context.Context, question string) (string, error) {
	_, _ = io.WriteString(l.out, question)
	select {
	case line := <-l.answers:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func TestAnAnswerIsAskedForOnceAndRemembered(t *testing.T) {
	env := func(name string) string { return map[string]string{"XDG_STATE_HOME": t.TempDir()}[name] }
	file, out := File(env), &background.Output{}
	answers := make(chan string)
	a, err := New(Config{Console: lines{out, answers}, Err: out, File: file, Command: "switchyard connect"})
	if err != nil {
		t.Fatal(err)
	}
	docker := consent.Request{UID: "u", Sandbox: "his", Workload: "cart", Address: "127.0.0.1:2375"}
	debugger := consent.Request{UID: "u", Sandbox: "his", Workload: "cart", Address: "127.0.0.1:9229"}
	for range 3 {
		if d := a.Decide(docker); d.Verdict != consent.Ask {
			t.Fatalf("before the answer: %+v", d)
		}
	}
	a.Decide(debugger)
	changed := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go a.Run(ctx, func(context.Context) { changed <- struct{}{} })
	for _, line := range []string{"y", "no"} {
		answers <- line
		<-changed
	}
	if strings.Count(out.String(), "Open 127.0.0.1:2375") != 1 {
		t.Errorf("it asked:\n%s", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	again, err := New(Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []*Addresses{a, again} {
		if d := one.Decide(docker); d.Verdict != consent.Allowed {
			t.Errorf("a yes: %+v", d)
		}
		if d := one.Decide(debugger); d.Verdict != consent.Refused || !strings.Contains(d.Why, "you refused") {
			t.Errorf("a no: %+v", d)
		}
	}
	docker.UID = "another"
	if d := again.Decide(docker); d.Verdict != consent.Refused {
		t.Errorf("another sandbox of the name: %+v", d)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{File: file}); err == nil {
		t.Error("a file that all users can write is accepted")
	}
}

func TestWithoutATerminalItIsRefusedWithTheCommand(t *testing.T) {
	a, err := New(Config{Command: "switchyard connect", Console: Terminal(strings.NewReader("y\n"), io.Discard)})
	if err != nil {
		t.Fatal(err)
	}
	d := a.Decide(consent.Request{UID: "u", Sandbox: "his", Address: "127.0.0.1:2375"})
	if d.Verdict != consent.Refused || !strings.Contains(d.Why, "switchyard connect --sandbox his --allow 127.0.0.1:2375") {
		t.Errorf("%+v", d)
	}
}

func TestTheOpenerOfAnAddressIsWrittenOnce(t *testing.T) {
	out := &background.Output{}
	a, err := New(Config{Err: out})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []workstation.Opening{{From: "10.0.0.3:1"}, {From: "10.0.0.3:2"}, {From: "10.0.0.9:1", User: "bob"}} {
		o.Sandbox, o.Workload, o.Address = "mine", "cart", "127.0.0.1:8081"
		a.Opened(o)
	}
	if got := out.String(); got != "mine/cart: the pod at 10.0.0.3 opened 127.0.0.1:8081\nmine/cart: user bob opened 127.0.0.1:8081\n" {
		t.Error(got)
	}
}

// A caller does not hide itself behind many others.
func TestManyCallersHideNone(t *testing.T) {
	out := &background.Output{}
	a, err := New(Config{Err: out})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxOpened + 1 {
		a.Opened(workstation.Opening{User: fmt.Sprint("u", i), Address: "127.0.0.1:1"})
	}
	a.Opened(workstation.Opening{User: "bob", Address: "127.0.0.1:1"})
	a.Opened(workstation.Opening{User: "bob", Address: "127.0.0.1:1"})
	if got := out.String(); strings.Count(got, "user bob opened") != 1 || strings.Count(got, "note: ") != 1 || len(a.opened) != maxOpened {
		t.Errorf("%d are known, and it ends with %s", len(a.opened), got[len(got)-100:])
	}
}

func TestSandboxesThatAreNotServedAreCounted(t *testing.T) {
	out := &background.Output{}
	tell := unserved(&command.Session{Config: command.Config{Err: out, Name: "switchyard"}})
	for _, more := range []int32{0, 12, 12} {
		tell([]string{"a", "b"}, more)
	}
	if got := out.String(); strings.Count(got, "note: ") != 2 || !strings.Contains(got, "update them: a, b. Without") || !strings.Contains(got, "update them: a, b, and up to 12 more. Without") {
		t.Error(got)
	}
}
