package unit

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"switchyard.dev/workflows/iocontext"
)

// maxFirstLine is how much of a script the kernel reads for its interpreter (BINPRM_BUF_SIZE).
const maxFirstLine = 256

// firstLine returns the words after the #! of a script, nil when it has none.
func firstLine(script string) []string {
	f, err := os.Open(script)
	if err != nil {
		return nil
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, maxFirstLine)).ReadString('\n') // a script may be one line
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil
	}
	return strings.FieldsFunc(strings.TrimSuffix(rest, "\n"), func(r rune) bool { return r == ' ' || r == '\t' })
}

// interpreterMissing returns an ending where the first line uses env to find a program that the
// image lacks: env itself reports that only in its output.
func interpreterMissing(script string) *iocontext.Ending {
	words := firstLine(script)
	if len(words) < 2 || filepath.Base(words[0]) != "env" {
		return nil
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue // an option of env, or a variable that it sets
		}
		if _, err := exec.LookPath(word); err == nil || !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		e := missing(word, strings.Join(words, " "))
		return &e
	}
	return nil
}

func missing(program, line string) iocontext.Ending {
	hint := ""
	if strings.HasSuffix(line, "\r") {
		hint = " The line ends with a carriage return: save the script with line feeds alone."
	}
	e := notStarted(iocontext.InterpreterMissing, "the script's first line names the interpreter %s (#!%s), which the runner's image lacks: "+
		"choose an image that has it, or another interpreter.%s", strings.TrimSuffix(program, "\r"), strings.TrimSuffix(line, "\r"), hint)
	e.ExitCode = notFound
	return e
}

// unstartable returns why the kernel did not start a script, or a command.
func (m Main) unstartable(p plan, path string, err error) iocontext.Ending {
	if errors.Is(err, syscall.E2BIG) {
		return notStarted(iocontext.VariablesTooLarge, "all variables together are more than the kernel takes: take the large inputs as files")
	}
	if !p.Script {
		return notStarted(iocontext.CommandMissing, "the program %s cannot be run: %v", path, err)
	}
	words := firstLine(path)
	line := strings.Join(words, " ")
	switch {
	case len(words) == 0:
		return notStarted(iocontext.ScriptNotRunnable, "the script's first line names no interpreter: begin it with #! and the path of one, such as #!/bin/sh")
	case errors.Is(err, fs.ErrNotExist):
		if _, wrong := os.Stat(words[0]); wrong == nil {
			return notStarted(iocontext.InterpreterMissing, "the interpreter %s (#!%s) is in the runner's image, and the libraries or the loader that it needs are not: "+
				"choose another image", words[0], line)
		}
		return missing(words[0], line)
	}
	return notStarted(iocontext.ScriptNotRunnable, "the interpreter %s of the script's first line (#!%s) cannot be run: %v", words[0], line, err)
}
