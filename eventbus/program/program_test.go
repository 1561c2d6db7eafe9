package program_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"switchyard.dev/eventbus/program"
)

// ends has the test binary be a program that ends so.
const ends = "PROGRAM_ENDS"

func TestMain(m *testing.M) {
	if os.Getenv(ends) == "" {
		os.Exit(m.Run())
	}
	program.Main("the program ended", func(ctx context.Context, args []string) error {
		program.Logger(slog.LevelWarn).Info("below the level")
		switch os.Getenv(ends) {
		case "badly":
			return fmt.Errorf("told %q", args)
		case "with help":
			return fmt.Errorf("parse: %w", flag.ErrHelp)
		case "when told":
			fmt.Println("running")
			<-ctx.Done()
		}
		return nil
	})
}

func start(t *testing.T, how string) (p *exec.Cmd, out io.Reader, log *bytes.Buffer) {
	t.Helper()
	p, log = exec.CommandContext(t.Context(), os.Args[0], "one", "two"), &bytes.Buffer{}
	p.Env, p.Stderr = append(os.Environ(), ends+"="+how), log
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p, out, log
}

func TestEndsOfAProgram(t *testing.T) {
	for how, want := range map[string]struct {
		code int
		said string
	}{
		"well":      {0, ""},
		"with help": {0, ""},
		"badly":     {1, `"level":"ERROR","msg":"the program ended","error":"told [\"one\" \"two\"]"}`},
	} {
		p, _, log := start(t, how)
		_ = p.Wait()
		if got := p.ProcessState.ExitCode(); got != want.code || !strings.Contains(log.String(), want.said) || want.said == "" && log.Len() > 0 {
			t.Errorf("%s: exit code %d, and said:\n%s", how, got, log)
		}
	}
}

func TestAProgramEndsOnSIGTERM(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p, out, log := start(t, "when told")
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatalf("it does not run: %v\n%s", err, log)
		}
		if err := p.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %v\n%s", signal, err, log)
		}
	}
}

func TestParseTakesFlagsAlone(t *testing.T) {
	for text, want := range map[string]string{
		"-level=2": "", "-level=2 serve": `unexpected argument "serve": all settings are flags`,
		"-lvl=2": "flag provided but not defined", "-help": "help requested",
	} {
		var usage strings.Builder
		flags := flag.NewFlagSet("program", flag.ContinueOnError)
		flags.Int("level", 0, "how deep")
		err := program.Parse(flags, strings.Fields(text), &usage)
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if errors.Is(err, flag.ErrHelp) && !strings.Contains(usage.String(), "how deep") {
			t.Errorf("help says %q", usage.String())
		}
	}
}

func TestARegistryHasTheMetricsOfTheProcess(t *testing.T) {
	families, err := program.Registry().Gather()
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	if all := strings.Join(names, " "); err != nil || !strings.Contains(all, "go_goroutines") || !strings.Contains(all, "process_open_fds") {
		t.Errorf("it has %s (%v)", all, err)
	}
}

func TestList(t *testing.T) {
	var list []string
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.Func("list", "", program.List(&list))
	if err := program.Parse(flags, []string{"--list", " a, b,,", "--list=c"}, io.Discard); err != nil || !slices.Equal(list, []string{"a", "b", "c"}) {
		t.Errorf("%q, %v", list, err)
	}
}
