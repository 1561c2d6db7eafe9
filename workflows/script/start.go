package script

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Script returns the command that runs the script in a file, with an environment; or why it cannot start.
func Script(path string, environ []string) (*exec.Cmd, *Ending) {
	if e := interpreterMissing(path, environ); e != nil {
		return nil, e
	}
	return &exec.Cmd{Path: path, Args: []string{path}, Env: environ}, nil
}

// Program returns the command that runs a program with its arguments and an environment, with a PATH that finds it; or
// why it cannot start. There is at least one word.
func Program(words, environ []string) (*exec.Cmd, *Ending) {
	path := words[0]
	if !strings.Contains(path, "/") {
		if path = find(words[0], environ); path == "" {
			e := notStarted(CommandMissing, "the image has no program %s: choose an image that has it, or another command", words[0])
			e.ExitCode = notFound
			return nil, e
		}
	}
	return &exec.Cmd{Path: path, Args: words, Env: environ}, nil
}

// defaultPath is used without PATH, as execvp(3) does.
const defaultPath = "/bin:/usr/bin"

// find returns the path of a program; "": PATH of the environment does not have it.
func find(program string, environ []string) string {
	path := defaultPath
	for _, v := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
			break
		}
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, program)
		if about, err := os.Stat(file); err == nil && !about.IsDir() && unix.Access(file, unix.X_OK) == nil {
			return file
		}
	}
	return ""
}

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
func interpreterMissing(script string, environ []string) *Ending {
	words := firstLine(script)
	if len(words) < 2 || filepath.Base(words[0]) != "env" {
		return nil
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue // an option of env, or a variable that it sets
		}
		there := find(word, environ) != ""
		if strings.Contains(word, "/") {
			_, err := os.Stat(word)
			there = !errors.Is(err, fs.ErrNotExist)
		}
		if there {
			return nil
		}
		return missing(word, strings.Join(words, " "))
	}
	return nil
}

func missing(program, line string) *Ending {
	hint := ""
	if strings.HasSuffix(line, "\r") {
		hint = " The line ends with a carriage return: save the script with line feeds alone."
	}
	e := notStarted(InterpreterMissing, "the script's first line names the interpreter %s (#!%s), which the runner's image lacks: "+
		"choose an image that has it, or another interpreter.%s", strings.TrimSuffix(program, "\r"), strings.TrimSuffix(line, "\r"), hint)
	e.ExitCode = notFound
	return e
}

// Unstartable returns why the kernel did not start a command, which is that of a script or a program. The remedy of
// VariablesTooLarge is the caller's: its message has none.
func Unstartable(command *exec.Cmd, script bool, err error) *Ending {
	at := (*fs.PathError)(nil)
	switch {
	case errors.Is(err, syscall.E2BIG):
		return notStarted(VariablesTooLarge, "all variables together are more than the kernel takes")
	case errors.As(err, &at) && at.Op == "chdir":
		return notStarted(NotRunnable, "the working directory %s cannot be entered: %v", at.Path, at.Err)
	case !script:
		return notStarted(CommandMissing, "the program %s cannot be run: %v", command.Path, err)
	}
	words := firstLine(command.Path)
	line := strings.Join(words, " ")
	switch {
	case len(words) == 0:
		return notStarted(NotRunnable, "the script's first line names no interpreter: begin it with #! and the path of one, such as #!/bin/sh")
	case errors.Is(err, fs.ErrNotExist):
		if _, wrong := os.Stat(words[0]); wrong == nil {
			return notStarted(InterpreterMissing, "the interpreter %s (#!%s) is in the runner's image, and the libraries or the loader that it needs are not: "+
				"choose another image", words[0], line)
		}
		return missing(words[0], line)
	}
	return notStarted(NotRunnable, "the interpreter %s of the script's first line (#!%s) cannot be run: %v", words[0], line, err)
}
