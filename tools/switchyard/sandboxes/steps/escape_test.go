package steps

import (
	"bytes"
	"strings"
	"testing"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/workflows/steps"
)

// clears is a sequence by which a terminal would clear itself and take another title.
const clears = "\x1b[2J\x1b]0;x\x07\u009b31m"

func sessionOf(t *testing.T) (s *command.Session, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	s = command.New(command.Config{Name: "switchyard", Out: out, Err: errs, Getenv: func(string) string { return "" }, Terminal: true})
	return s, out, errs
}

// obeyed reports whether a terminal would obey something of a text.
func obeyed(text string) bool { return strings.ContainsAny(text, "\x1b\x07\r\b\u009b") }

// Authors of a status, a label or a log do not control the terminal that shows it.
func TestATerminalObeysNothingOfTheCluster(t *testing.T) {
	s, out, errs := sessionOf(t)
	one := steps.Step{Name: "a" + clears, Phase: "Failed" + clears, Reason: clears, Message: clears, Outputs: []string{clears}, WaitsFor: []string{clears}}
	r := report{steps.Report{Name: clears, Sandbox: clears, Resource: clears, Plugin: clears, CreatedAt: clears, Reason: clears, Message: clears, Create: []steps.Step{one}, ToDo: []string{clears}}}
	if text := r.text(s); obeyed(text) || strings.Count(text, `\u001b[2J`) < 10 {
		t.Errorf("a resource is shown as %q", text)
	}
	if text := rowsOf([]report{r}, s).String(); obeyed(text) || strings.Count(text, `\u001b[2J`) < 5 {
		t.Errorf("a list is shown as %q", text)
	}
	w := printer{s, true}
	if err := w.line("a"+clears, "one\ttwo \x1b[1;31mred\x1b[0m "+clears+"\r\n"); err != nil {
		t.Fatal(err)
	}
	w.note("a"+clears, clears)
	if want := `a\u001b[2J\u001b]0;x\u0007\u009b31m | one` + "\t" + `two red \u001b[2J\u001b]0;x\u0007\u009b31m` + "\n"; out.String() != want {
		t.Errorf("a line of a log is shown as %q, not %q", out, want)
	}
	if obeyed(errs.String()) || !strings.HasPrefix(errs.String(), `step a\u001b[2J`) {
		t.Errorf("a note is shown as %q", errs)
	}
	// A file or a pipe gets a log unchanged.
	s.Terminal = false
	out.Reset()
	if err := (printer{s: s}).line("a", clears+"\n"); err != nil || out.String() != clears+"\n" {
		t.Errorf("a file has %q, %v", out, err)
	}
}
