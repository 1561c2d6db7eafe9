package child_test

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/child"
)

// script is a hostile script.
type script struct {
	name, text string
	ends       []string
	timeout    time.Duration
}

// hostile returns the scripts of testdata/hostile, and those that are too large for a file.
func hostile(t *testing.T, s server) (all []script) {
	t.Helper()
	files, err := filepath.Glob("testdata/hostile/*.star")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d hostile scripts, at least 30 are demanded: %v", len(files), err)
	}
	own := ownAddress(t)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, read(t, file, strings.NewReplacer("@URL@", s.url, "@PORT@", s.port, "@OWN@", own, "@PROXY@", "127.0.0.1:7441").Replace(string(content))))
	}
	return append(all,
		script{name: "large-parentheses", text: "x = " + strings.Repeat("(", 500_000), ends: []string{"ScriptInvalid"}},
		script{name: "large-list", text: "x = " + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000), ends: []string{"ScriptInvalid"}},
		script{name: "large-sum", text: "x = 1" + strings.Repeat("+1", 500_000), ends: []string{"TooDeep", "OutOfMemory"}},
		script{name: "large-condition", text: "x = " + strings.Repeat("1 if True else ", 60_000) + "1", ends: []string{"ScriptInvalid", "TooDeep"}},
		script{name: "large-script", text: "#" + strings.Repeat("x", smarttest.MaxScript), ends: []string{"ScriptTooLarge"}})
}

// read reads the first lines of a script: the reasons with which it may end, and its timeout.
func read(t *testing.T, file, text string) script {
	t.Helper()
	s := script{name: filepath.Base(file), text: text}
	for line := range strings.Lines(text) {
		if ends, is := strings.CutPrefix(line, "# ends: "); is {
			s.ends = strings.Split(strings.TrimSpace(ends), "|")
		}
		if timeout, is := strings.CutPrefix(line, "# limits: timeout="); is {
			var err error
			if s.timeout, err = time.ParseDuration(strings.TrimSpace(timeout)); err != nil {
				t.Fatal(file, err)
			}
		}
	}
	if len(s.ends) == 0 {
		t.Fatalf("%s does not state how it ends", file)
	}
	return s
}

// ownAddress returns an address of this host that is no loopback one.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p := netip.MustParsePrefix(a.String()); p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr().String() + ":1"
		}
	}
	t.Fatal("this host has no address besides the loopback ones")
	return ""
}

// parentMost is the most memory of the parent, in MiB, and childMore what a process has besides the memory of its script.
const parentMost, childMore = 96, 128

func TestHostileScriptsEndWithTheirReasons(t *testing.T) {
	s := serve(t)
	run, memory := startParent(t)
	counts := map[smarttest.Reason]int{}
	scripts := hostile(t, s)
	for _, script := range scripts {
		result := runHostile(t, run, s, script)
		counts[result.Reason]++
		switch {
		case !slices.Contains(script.ends, string(result.Reason)):
			t.Errorf("%s: %s (%s), want %v", script.name, result.Reason, result.Message, script.ends)
		case result.Passed && result.Reason != smarttest.Completed, result.Message == "" && result.Reason != smarttest.Completed:
			t.Errorf("%s: it passed, or lacks a message: %+v", script.name, result)
		case strings.Contains(result.Output, "the test goes on"):
			t.Errorf("%s: the script continued after it has passed a limit", script.name)
		case result.PeakMemory > limits().Memory+childMore<<20:
			t.Errorf("%s: the process had %d MiB", script.name, result.PeakMemory>>20)
		}
	}
	if most := memory(); most > parentMost {
		t.Errorf("the parent had %.0f MiB, at most %d are allowed", most, parentMost)
	} else {
		t.Logf("%d scripts, the parent had %.0f MiB: %v", len(scripts), most, counts)
	}
}

// friendly is the next test after each hostile one.
const friendly = `
res = http.get("@URL@/secret")
ck = smart_test.check("served")
if res.json()["name"] != "jane":
    ck.error("{}", res.body())
`

func runHostile(t *testing.T, run func(child.Runner, smarttest.Test) *smarttest.Result, s server, script script) *smarttest.Result {
	t.Helper()
	r := runner(s)
	if script.timeout > 0 {
		r.Limits.Timeout = script.timeout
	}
	began := time.Now()
	result := run(r, smarttest.Test{Name: script.name, Script: script.text})
	t.Logf("%-26s %-16s %6.0f ms %4d MiB %s", script.name, result.Reason, time.Since(began).Seconds()*1000, result.PeakMemory>>20, result.Message[:min(len(result.Message), 90)])
	next := run(runner(s), smarttest.Test{Name: "next", Script: strings.ReplaceAll(friendly, "@URL@", s.url)})
	if !next.Passed || len(next.Checks) != 1 || len(next.Calls) != 1 || next.Calls[0].Status != 200 {
		t.Errorf("the test after %s: %+v", script.name, next)
	}
	return result
}
