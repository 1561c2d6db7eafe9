package traffic

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/tests/background"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// recordedFolder returns a folder with requests 1 to n.
func recordedFolder(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "record")
	f, err := openFolder(path, show.Table, false)
	must(t, err)
	var all []*trafficv1.Exchange
	for i := 1; i <= n; i++ {
		x := exchange(fmt.Sprint("id", i))
		x.Request.Target = fmt.Sprint("/", i)
		x.Began.Seconds += int64(i)
		all = append(all, x)
	}
	put(t, f, all...)
	return path
}

func inspect(s *command.Session, args ...string) error {
	s.Show.Form = show.Table
	c := inspectCommand(s)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	return c.Execute()
}

func TestRecordedRequestsArePrinted(t *testing.T) {
	path := recordedFolder(t, 2)
	var out bytes.Buffer
	s := command.New(command.Config{Zone: time.UTC, Out: &out})
	must(t, inspect(s, "-d", path))
	if got := out.String(); got != "14:03:01.000 201 POST cart/1 0.0ms ForkedWorkload/shop/cart id1\n14:03:02.000 201 POST cart/2 0.0ms ForkedWorkload/shop/cart id2\n" {
		t.Errorf("it is %q", got)
	}
	if err := inspect(s, "-d", path+"/missing"); err == nil {
		t.Error("a missing folder is read")
	}
	if err := inspect(s, "-d", path+"/id1/meta.json"); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("a file: %v", err)
	}
}

func TestKeysOfThePage(t *testing.T) {
	var all []published.Meta
	for i := range 9 {
		all = append(all, published.Meta{MiddlewareRequestID: fmt.Sprint(i)})
	}
	p := &page{width: 12, height: 5, row: func(m published.Meta) string { return "request " + m.MiddlewareRequestID + "\x1b[2J of many" },
		open: func(id string) []string { return []string{"of " + id, "2", "3", "4", "\tlast"} }}
	view := func(want ...string) {
		t.Helper()
		if got := p.view(); !slices.Equal(got[1:4], want) || len(got) != 5 {
			t.Errorf("it is %q, not %q", got, want)
		}
	}
	p.list(nil)
	p.press("\r")
	view("", "", "")
	p.list(all)
	view("> request 0\\", "  request 1\\", "  request 2\\")
	p.press(keyDown)
	p.list(append([]published.Meta{{MiddlewareRequestID: "before"}}, all...)) // The selected one stays.
	view("  request be", "  request 0\\", "> request 1\\")
	p.press(keyPageDown)
	view("  request 2\\", "  request 3\\", "> request 4\\")
	p.press("G")
	p.press("j")
	view("  request 6\\", "  request 7\\", "> request 8\\")
	p.press("\r")
	view("of 8", "2", "3")
	p.press("G")
	view("3", "4", "    last")
	p.press("k")
	view("2", "3", "4")
	p.press("h")
	p.press("g")
	view("> request be", "  request 0\\", "  request 1\\")
	if p.press("x") || !p.press("q") || !p.press(keyInterrupt) || !p.press(keyEscape) {
		t.Error("it ends with another key")
	}
	if got := split("j\x1b[A\x1b[5~\x1bq\x1b["); !slices.Equal(got, []string{"j", keyUp, keyPageUp, keyEscape, "q", "\x1b["}) {
		t.Errorf("the keys are %q", got)
	}
}

// On a terminal the page follows the folder, and leaves the terminal as it was.
func TestThePageOnATerminal(t *testing.T) {
	path := recordedFolder(t, 1)
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	defer keys.Close()
	must(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	must(t, err)
	end, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	defer end.Close()
	must(t, unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 60}))
	before, err := unix.IoctlGetTermios(int(end.Fd()), unix.TCGETS)
	must(t, err)
	screen := &background.Output{}
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := keys.Read(b)
			if err != nil {
				return
			}
			_, _ = screen.Write(b[:n])
		}
	}()
	ended := make(chan error, 1)
	go func() {
		ended <- inspect(command.New(command.Config{Zone: time.UTC, In: end, Out: end, Terminal: true}), "-d", path)
	}()
	shows := func(what string) {
		t.Helper()
		for until := time.Now().Add(time.Minute); !strings.Contains(screen.String(), what); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				text := screen.String()
				t.Fatalf("%q is not shown: %q", what, text[max(0, len(text)-500):])
			}
		}
	}
	types := func(key string) { _, err := keys.WriteString(key); must(t, err) }
	shows("> 14:03:01.000 201 POST cart/1 0.0ms ForkedWorkload/shop/car\x1b[K") // cut to the width
	f, err := openFolder(path, show.Table, false)
	must(t, err)
	late := exchange("late")
	late.Began.Seconds += 9
	put(t, f, late)
	shows("1 of 2")
	types(keyDown + "\r")
	shows("POST /add HTTP/1.1")
	types("q")
	must(t, <-ended)
	shows("\x1b[?1049l")
	if after, err := unix.IoctlGetTermios(int(end.Fd()), unix.TCGETS); err != nil || *after != *before {
		t.Errorf("the terminal was %+v and is %+v, %v", before, after, err)
	}
}
