package command

import (
	"errors"
	"strconv"
	"testing"

	"github.com/spf13/pflag"

	"switchyard.dev/tools/switchyard/show"
)

func TestColoursAreForTerminals(t *testing.T) {
	for name, c := range map[string]struct {
		terminal, noColor bool
		env               string
		want              string
	}{
		"a terminal":               {true, false, "", "\x1b[32mx\x1b[0m"},
		"a pipe":                   {false, false, "", "x"},
		"a terminal, not wanted":   {true, true, "", "x"},
		"a terminal with NO_COLOR": {true, false, "1", "x"},
	} {
		s := New(Config{Terminal: c.terminal, Getenv: func(string) string { return c.env }})
		flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
		s.Flags(flags)
		if err := errors.Join(flags.Set("no-color", strconv.FormatBool(c.noColor)), s.Begin()); err != nil {
			t.Fatal(err)
		}
		if got := s.Show.Paint(show.Green, "x"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
