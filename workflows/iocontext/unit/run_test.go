package unit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/script"
)

// scene is a pod's volume, as Receive leaves it, and a folder for outputs.
type scene struct {
	*testing.T
	volume  Volume
	out     string
	plan    plan
	main    Main
	printed bytes.Buffer
}

func newScene(t *testing.T, text string) *scene {
	t.Helper()
	s := &scene{T: t, volume: Volume{Root: t.TempDir()}, out: t.TempDir()}
	wrapper := filepath.Join(s.out, "wrapper")
	s.must(os.WriteFile(wrapper, []byte("a program"), 0o600))
	s.must(s.volume.prepare(wrapper))
	if s.plan.Script = text != ""; s.plan.Script {
		s.must(script.Put(s.volume.in(iocontext.ScriptPath), []byte(text), 0o755))
	}
	s.main = Main{Volume: s.volume, Environ: []string{"PATH=" + os.Getenv("PATH"), "OUT=" + s.out}, Stdout: &s.printed, Stderr: &s.printed}
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// input gives the script an input.
func (s *scene) input(name, env, value string) {
	s.Helper()
	s.must(s.volume.unpackInput(iocontext.Input{Name: name, Env: env, Value: []byte(value)}, &s.plan))
}

// outputOf gives the script the output of another step.
func (s *scene) outputOf(name, key, env, value string) {
	s.Helper()
	s.must(s.volume.unpackInput(iocontext.Input{Name: name, From: key, Env: env, Value: []byte(value)}, &s.plan))
}

// output has the script owe an output.
func (s *scene) output(name, file string) {
	s.plan.Outputs = append(s.plan.Outputs, iocontext.Output{Name: name, Path: filepath.Join(s.out, file)})
}

// run runs the script. The result in the volume equals the wrapper's.
func (s *scene) run() iocontext.Ending {
	s.Helper()
	s.must(putJSON(s.volume.in(iocontext.PlanPath), s.plan))
	ending := s.main.Run()
	var r result
	there, err := s.volume.take(iocontext.ResultPath, &r)
	s.must(err)
	if !there || r.Ending != ending {
		s.Errorf("the result is %+v, and the wrapper returns %+v", r, ending)
	}
	return ending
}

func (s *scene) given(output string) string {
	content, err := os.ReadFile(filepath.Join(s.volume.in(iocontext.OutputsDir), output))
	if errors.Is(err, fs.ErrNotExist) {
		return "(none)"
	}
	s.must(err)
	return string(content)
}

func TestAScriptHasItsInputsAndGivesItsOutputs(t *testing.T) {
	s := newScene(t, "#!/bin/sh -e\ncat \"$OUT/../in\" 2>/dev/null || true\nprintf '%s' \"$PW\" >\"$OUT/one\"\nprintf 'a\\000b' >$OUT/two\necho $PW\necho warned >&2\n")
	s.input("pw", "PW", "s3 cret\n'\"")
	s.output("one", "one")
	s.output("two", "two")
	if e := s.run(); e != (iocontext.Ending{Tail: "<pw>\nwarned\n"}) && e.Reason != "" {
		t.Errorf("it ended with %+v", e)
	}
	if s.given("one") != "s3 cret\n'\"" || s.given("two") != "a\x00b" {
		t.Errorf("it gave %q and %q", s.given("one"), s.given("two"))
	}
	if !strings.Contains(s.printed.String(), "warned\n") {
		t.Errorf("the container prints %q", s.printed.String())
	}
}

// A script inherits what its wrapper does with signals: what writes to a closed pipe ends.
func TestSIGPIPEHasItsEffectInScripts(t *testing.T) {
	s := newScene(t, "#!/usr/bin/env bash\nset -o pipefail\nyes | head -n 1\necho ${PIPESTATUS[0]}\n")
	signal.Ignore(syscall.SIGPIPE)
	t.Cleanup(func() { signal.Reset(syscall.SIGPIPE) })
	s.run()
	if got := s.printed.String(); got != "y\n141\n" {
		t.Errorf("the script prints %q", got)
	}
}

// The published documentation has scripts for both interpreters.
func TestScriptsOfBashAndPythonRun(t *testing.T) {
	for interpreter, script := range map[string]string{
		"bash":    "#!/usr/bin/env bash\nset -euo pipefail\ndeclare -A of=([name]=$NAME)\n[[ ${of[name]} == shop-* ]] && printf '%s' \"${of[name]^^}\" >\"$OUT/name\"\n",
		"python3": "#!/usr/bin/env python3\nimport os\nopen(os.environ['OUT'] + '/name', 'w').write(os.environ['NAME'].upper())\n",
	} {
		t.Run(interpreter, func(t *testing.T) {
			s := newScene(t, script)
			s.input("name", "NAME", "shop-a")
			s.output("name", "name")
			if e := s.run(); e != (iocontext.Ending{}) {
				t.Errorf("it ended with %+v", e)
			}
			if got := s.given("name"); got != "SHOP-A" {
				t.Errorf("the output is %q", got)
			}
		})
	}
}

func TestEndsOfScripts(t *testing.T) {
	big := strings.Repeat("x", iocontext.MaxVariable)
	for what, tt := range map[string]struct {
		script  string
		set     func(*scene)
		reason  string
		code    int
		says    string
		without string
	}{
		"an exit code":            {script: "#!/bin/sh\necho last words; exit 3\n", reason: iocontext.ScriptFailed, code: 3, says: "code 3"},
		"a signal":                {script: "#!/bin/sh\nkill -9 $$\n", reason: iocontext.ScriptKilled, code: 137, says: "signal 9"},
		"no interpreter":          {script: "#!/opt/none/python3 -u\n", reason: iocontext.InterpreterMissing, code: 127, says: "/opt/none/python3 (#!/opt/none/python3 -u), which the runner's image lacks"},
		"env without it":          {script: "#!/usr/bin/env none-such\n", reason: iocontext.InterpreterMissing, code: 127, says: "none-such"},
		"env with options":        {script: "#!/usr/bin/env -S sh -e\nexit 4\n", reason: iocontext.ScriptFailed, code: 4},
		"a carriage return":       {script: "#!/bin/sh\r\necho\r\n", reason: iocontext.InterpreterMissing, code: 127, says: "carriage return"},
		"no first line":           {script: "echo hello\n", reason: iocontext.ScriptNotRunnable, code: 126, says: "#!/bin/sh"},
		"a folder as interpreter": {script: "#!/usr\n", reason: iocontext.ScriptNotRunnable, code: 126, says: "/usr"},
		"a NUL in a variable": {script: "#!/bin/sh\n", set: func(s *scene) { s.input("in", "IN", "SECRET\x00") },
			reason: iocontext.VariableHasNUL, code: 126, says: "input in has a NUL byte (byte 7), so that it cannot be variable IN: take it as a file", without: "SECRET"},
		"an output with a NUL": {script: "#!/bin/sh\n", set: func(s *scene) { s.outputOf("dump", "make.dump", "DUMP", "SECRET\x00") },
			reason: iocontext.VariableHasNUL, code: 126, says: "input dump, which is output dump of step make, has a NUL byte (byte 7), so that it cannot be variable DUMP", without: "SECRET"},
		"an output that is not UTF-8": {script: "#!/bin/sh\n", set: func(s *scene) { s.outputOf("dump", "make.dump", "DUMP", "é\xffSECRET") },
			reason: iocontext.VariableNotUTF8, code: 126, says: "output dump of step make, is not UTF-8 (byte 3), so that it cannot be variable DUMP", without: "SECRET"},
		"such an output as a file": {script: "#!/bin/sh\nexit 3\n", set: func(s *scene) { s.outputOf("dump", "make.dump", "", "é\xff\x00") }, reason: iocontext.ScriptFailed, code: 3},
		"one byte too much": {script: "#!/bin/sh\n", set: func(s *scene) { s.input("in", "IN", big[:iocontext.MaxVariable-3]) },
			reason: iocontext.VariableTooLarge, code: 126, says: fmt.Sprintf("variable IN has room for %d", iocontext.MaxVariable-4)},
		"just enough": {script: "#!/bin/sh\nexit ${#IN}\n", set: func(s *scene) { s.input("in", "IN", big[:iocontext.MaxVariable-4]) },
			reason: iocontext.ScriptFailed, code: (iocontext.MaxVariable - 4) & 255},
		"too much together": {script: "#!/bin/sh\n", set: func(s *scene) {
			for i := range 200 {
				s.input(fmt.Sprint("in", i), fmt.Sprint("IN", i), big[:iocontext.MaxVariable-16])
			}
		}, reason: iocontext.VariablesTooLarge, code: 126},
		"no output": {script: "#!/bin/sh\n", set: func(s *scene) { s.output("url", "url") },
			reason: iocontext.OutputMissing, says: "/url, which is to hold output url"},
		"no output of a script that failed": {script: "#!/bin/sh\nexit 1\n", set: func(s *scene) { s.output("url", "url") }, reason: iocontext.ScriptFailed, code: 1},
		"a folder as output":                {script: "#!/bin/sh\nmkdir $OUT/url\n", set: func(s *scene) { s.output("url", "url") }, reason: iocontext.OutputNotAFile, says: "output url"},
		"a pipe as output":                  {script: "#!/bin/sh\nmkfifo $OUT/url\n", set: func(s *scene) { s.output("url", "url") }, reason: iocontext.OutputNotAFile, says: "output url"},
		"a large output": {script: "#!/bin/sh\nhead -c 1048577 /dev/zero | tr '\\0' S >$OUT/url; cat $OUT/url\n", set: func(s *scene) { s.output("url", "url") },
			reason: iocontext.OutputTooLarge, says: "output url", without: "SSS"},
		"neither script nor command": {reason: iocontext.CommandMissing, code: 126},
		"a command":                  {set: func(s *scene) { s.main.Command = []string{"sh", "-c", "exit 5"} }, reason: iocontext.ScriptFailed, code: 5},
		"no command":                 {set: func(s *scene) { s.main.Command = []string{"none-such"} }, reason: iocontext.CommandMissing, code: 127, says: "none-such"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, tt.script)
			if tt.set != nil {
				tt.set(s)
			}
			e := s.run()
			if e.Reason != tt.reason || e.ExitCode != tt.code || !strings.Contains(e.Message, tt.says) {
				t.Errorf("it ended with %.300s %d %.300s", e.Reason, e.ExitCode, e.Message)
			}
			if text := fmt.Sprint(e); tt.without != "" && strings.Contains(text, tt.without) {
				t.Errorf("it leaks %.300s", text)
			}
			if again := s.main.Run(); again.Reason != iocontext.BegunBefore {
				t.Errorf("a second wrapper returns %+v", again)
			}
		})
	}
}

func TestALargestOutputIsTaken(t *testing.T) {
	s := newScene(t, "#!/bin/sh\nhead -c 1048576 /dev/zero | tr '\\0' S >$OUT/v; cat $OUT/v; echo; echo done\n")
	s.output("v", "v")
	if e := s.run(); e.Reason != "" || e.Tail != "<v>\ndone\n" || len(s.given("v")) != iocontext.MaxValue {
		t.Errorf("it ended with %.200s, and gave %d bytes", fmt.Sprint(e), len(s.given("v")))
	}
}

func TestSignalsAreHandedOn(t *testing.T) {
	s := newScene(t, "#!/bin/sh\ntrap 'echo told; exit 7' TERM\n: >$OUT/up\nwhile :; do sleep 0.05; done\n")
	signals := make(chan os.Signal, 1)
	s.main.Signals = signals
	go func() {
		wait.Holds(t, "the script runs", func() bool { _, err := os.Stat(filepath.Join(s.out, "up")); return err == nil })
		signals <- syscall.SIGTERM
	}()
	if e := s.run(); e.ExitCode != 7 || !strings.Contains(e.Tail, "told\n") {
		t.Errorf("it ended with %+v", e)
	}
}

// Delete steps remove by SIGNADOT_SANDBOX_NAME: an input must not be able to name another sandbox.
func TestInputsReplaceNoVariableOfTheOperator(t *testing.T) {
	s := newScene(t, "#!/bin/sh\necho $SIGNADOT_SANDBOX_NAME $OTHER\n")
	s.main.Environ = append(s.main.Environ, "SIGNADOT_SANDBOX_NAME=mine")
	s.input("signadot-sandbox-name", "SIGNADOT_SANDBOX_NAME", "others")
	s.input("other", "OTHER", "x")
	e := s.run()
	if got := s.printed.String(); e.Reason != "" || !strings.HasSuffix(got, "mine x\n") || !strings.Contains(got, "warning: input signadot-sandbox-name is not set as variable SIGNADOT_SANDBOX_NAME") {
		t.Errorf("it ended with %+v and printed %q", e, got)
	}
}

func TestTheTailHasNoColourCodes(t *testing.T) {
	s := newScene(t, "#!/bin/sh\nprintf '\\033[31m\\342\\224\\202\\033[0m \\033[1;38:5:9mError:\\033[0m locked\\033[K\\n\\033]8;;http://x\\007link\\033]8;;\\033\\\\\\n\\033(Bsec\\033[0mret-1\\n'; exit 1\n")
	s.input("pw", "PW", "secret-1")
	if e := s.run(); e.Tail != "│ Error: locked\nlink\n<pw>\n" {
		t.Errorf("the tail is %q", e.Tail)
	}
}

// What a script leaves behind in the background does not hold up its end.
func TestProcessesLeftBehindAreNotWaitedFor(t *testing.T) {
	s := newScene(t, "#!/bin/sh\nsleep 60 &\n")
	began := time.Now()
	if e := s.run(); e.Reason != "" || time.Since(began) > 30*time.Second {
		t.Errorf("after %s it ended with %+v", time.Since(began), e)
	}
}

func TestTheDeathOfTheMainContainerIsSeen(t *testing.T) {
	s := newScene(t, "#!/bin/sh\n")
	if gone, err := s.volume.mainGone(); gone || err != nil {
		t.Fatalf("before it begins it has ended: %t, %v", gone, err)
	}
	alive, err := script.Begin(s.volume.in(begunPath), "")
	s.must(err)
	if gone, err := s.volume.mainGone(); gone || err != nil {
		t.Fatalf("while it runs it has ended: %t, %v", gone, err)
	}
	if _, err := script.Begin(s.volume.in(begunPath), ""); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another begins: %v", err)
	}
	s.must(alive.Close())
	_, ending := s.volume.await(t.Context())
	if ending == nil || ending.Reason != iocontext.MainKilled {
		t.Errorf("after its death: %+v", ending)
	}
}

// A script of which it cannot be recorded that it begins does not begin, and the output manager does not wait for it.
func TestAScriptThatCannotBeginIsReported(t *testing.T) {
	s := newScene(t, "#!/bin/sh\ntouch $OUT/ran\n")
	s.must(os.MkdirAll(s.volume.in(fmt.Sprintf("%s.%d/in the way", begunPath, os.Getpid())), 0o700))
	if e := s.run(); e.Reason != iocontext.VolumeFailed || e.ExitCode == 0 {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(filepath.Join(s.out, "ran")); err == nil {
		t.Error("the script ran")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel() // so that it would not wait for ever
	if r, ending := s.volume.await(over); ending != nil || r.Reason != iocontext.VolumeFailed {
		t.Errorf("%+v, %+v", r, ending)
	}
}

// An output is what the script left in the folder of outputs, and nothing else that the output
// manager could read.
func TestAScriptHasNoFilesOfOthersSent(t *testing.T) {
	s := newScene(t, "#!/bin/sh\n")
	token := filepath.Join(s.out, "token")
	s.must(os.WriteFile(token, []byte("token"), 0o600))
	s.must(putJSON(s.volume.in(iocontext.PlanPath), s.plan))
	s.must(os.Symlink(token, filepath.Join(s.volume.in(iocontext.OutputsDir), "link")))
	for _, name := range []string{"link", "../plan.json", "..", ""} {
		if content, err := s.volume.output(name); err == nil {
			t.Errorf("output %q is %q", name, content)
		}
	}
	// The folder of outputs itself is a link to a folder of the output manager, and so is the result.
	s.must(os.RemoveAll(s.volume.in(iocontext.OutputsDir)))
	s.must(os.Symlink(s.out, s.volume.in(iocontext.OutputsDir)))
	if content, err := s.volume.output("token"); err == nil {
		t.Errorf("through a link in the middle, output token is %q", content)
	}
	s.must(os.WriteFile(token, []byte(`{"exitCode": 7}`), 0o600))
	s.must(os.Symlink(token, s.volume.in(iocontext.ResultPath)))
	var r result
	if _, err := s.volume.take(iocontext.ResultPath, &r); err == nil {
		t.Errorf("through a link, the result is %+v", r)
	}
}

// A program that the script has started gets the signal too, and has the time that it takes, after
// the shell has ended: OpenTofu gives its lock back in it.
func TestAStopReachesWhatTheScriptRuns(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT} {
		s := newScene(t, `#!/bin/sh
sh -c 'trap "i=0; while [ \$i -lt 30 ]; do i=\$((i+1)); sleep 0.1; done; echo released; rm $OUT/lock; exit" TERM INT; : >$OUT/lock; while :; do sleep 0.05; done'
echo after
`)
		signals := make(chan os.Signal, 1)
		s.main.Signals = signals
		go func() {
			wait.Holds(t, "the lock is taken", func() bool { _, err := os.Stat(filepath.Join(s.out, "lock")); return err == nil })
			signals <- signal
		}()
		e := s.run()
		if _, err := os.Stat(filepath.Join(s.out, "lock")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(s.printed.String(), "released") {
			t.Errorf("%s: the lock is still taken (%v); it ended with %+v and printed %q", name, err, e, s.printed.String())
		}
		if e.Reason != iocontext.ScriptKilled || e.ExitCode != 128+int(signal) {
			t.Errorf("%s: it ended with %+v", name, e)
		}
	}
}
